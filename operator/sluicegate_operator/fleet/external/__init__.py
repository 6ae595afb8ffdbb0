"""The fleet of a cluster that the operator does not run."""
