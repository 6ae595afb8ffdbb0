"""Files of a log directory, the file system that opens them, and the flushes that wait for the disk."""
