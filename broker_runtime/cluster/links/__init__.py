"""Links to controllers and other brokers, by sockets or within the process."""
