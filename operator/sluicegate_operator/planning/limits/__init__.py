"""The connection limits of brokers: the wanted ones, those that brokers report, and the changes from one to the other.

`connection_groups` translates limits of ranges and workloads into groups, and `workloads` tracks the addresses of the
pods that a workload quota selects.
"""
