"""Connections by the second of their arrival, and the limits that could apply to them. Pure."""
