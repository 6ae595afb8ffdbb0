"""TLS of a node: contexts for its listeners and its links, and their renewal while it runs."""
