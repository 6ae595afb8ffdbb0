"""APIs of single partitions: in-sync replicas, reassignments, log directories, damage."""
