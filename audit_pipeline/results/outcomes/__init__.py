"""What became of requests: the changes that clients have asked for, and names of errors."""
