"""How far groups are behind, for metrics: by the coordinator, who asks the partitions' leaders from time to time.

docs/decisions/0034-*.md says why here.
"""
