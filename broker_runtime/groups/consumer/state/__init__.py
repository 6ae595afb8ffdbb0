"""A group of the consumer protocol as data: members, owners of partitions, subscriptions, topics. Pure."""
