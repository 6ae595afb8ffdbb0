"""Broker and topic configuration in a spec: its keys, defaults, and equal values."""
