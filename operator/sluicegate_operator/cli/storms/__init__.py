"""`sluicegate storm`: connections from many addresses, against a limit."""
