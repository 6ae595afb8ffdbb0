"""The lag of groups, for metrics. The coordinator measures it: it asks the leaders of the partitions periodically.

docs/decisions/0034-*.md gives the reasons.
"""
