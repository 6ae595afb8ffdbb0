"""The way of a request from its frame to its reply: the handler is found, run, awaited, and its answer packed."""
