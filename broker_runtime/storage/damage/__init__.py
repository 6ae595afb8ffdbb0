"""Damaged segments: they are found while the broker runs, and replaced from other replicas."""
