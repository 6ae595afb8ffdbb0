"""APIs that create, delete and describe topics, or name the leaders of their partitions."""
