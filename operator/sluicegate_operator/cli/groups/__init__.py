"""`sluicegate groups`: groups, their lag, and their offsets."""
