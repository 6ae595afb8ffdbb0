"""Groups of KIP-848: the coordinator assigns partitions, and each member converges to its assignment by its heartbeats.

Pure: `heartbeat` and `leaving` decide requests and `sessions` timers, `group` applies what they wrote.
"""
