"""Registered brokers, fenced brokers, and the Lease by which a controller is active."""
