"""The Lease by which one of several operators is active."""
