"""The meaning of ConnectionQuotas: their targets, the precedence between them, verdicts, and Kafka's keys. Pure.

`targets` has the objects that a quota limits, and `strictest` decides between quotas on one target. `verdicts` has the
result for each quota, and `quota_keys` translates the limits of a target to Kafka's keys and to connection groups.
"""
