"""Follows partitions that other brokers lead: reads their records in order, and truncates what they lack."""
