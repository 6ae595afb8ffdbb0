"""A segment of a log: its records, its indexes, and the offsets that cannot be read."""
