"""Fetch sessions (KIP-227), and fetches that a session repeats."""
