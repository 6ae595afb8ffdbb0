"""`sluicegate top`: a console about brokers, limits, clients, groups and partitions that refreshes itself."""
