"""What the controller decides about partitions: placement, leaders, in-sync sets and moves. Pure."""
