"""Sockets, the poller that waits for them, and connections that end before they are served."""
