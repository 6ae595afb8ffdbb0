"""Facts of requests and their partitions: who moved what, how long it took, and what both take from single events."""
