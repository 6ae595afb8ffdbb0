"""Kafka's log on disk.

Layers inside: manager > loader > log > log_files > truncation > recovery | snapshots > segment > index > filesystem.
"""
