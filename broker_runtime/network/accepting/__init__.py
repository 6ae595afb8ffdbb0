"""One listener: accept its clients, admit, delay or refuse them as the quotas decide, and report it."""
