"""A push group as data: members, owners of partitions, states and subscriptions. Pure."""
