"""The check of what a client may do: the gate before a handler, its table, and the answers of denials."""
