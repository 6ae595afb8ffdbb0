"""The bytes that a client has sent and that no handler has read yet: unfinished requests, and their memory."""
