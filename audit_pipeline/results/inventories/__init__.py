"""What brokers report of their partitions: by hour, at the end of a day, and which topics nobody uses. Pure."""
