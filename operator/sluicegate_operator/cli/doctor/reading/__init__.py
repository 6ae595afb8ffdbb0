"""Reads what the checks of `sluicegate doctor` judge, with a deadline for each read."""
