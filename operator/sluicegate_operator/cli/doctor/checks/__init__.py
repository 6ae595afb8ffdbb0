"""The checks of `sluicegate doctor`, as functions from what was read to results. Pure."""
