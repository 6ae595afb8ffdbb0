"""The fleet of `sluicegate up`: brokers that are processes of this machine."""
