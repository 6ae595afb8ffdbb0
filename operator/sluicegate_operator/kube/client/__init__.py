"""Reads and writes of objects, Events, and reviews of the operator's rights."""
