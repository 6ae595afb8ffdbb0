"""Limits of connection groups: members, counts and rates. Pure."""
