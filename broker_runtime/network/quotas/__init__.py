"""What the broker shows and logs of its connection limits, and applies beside `connection_limits`, which decides."""
