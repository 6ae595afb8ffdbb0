"""Kafka's log on disk. Layers inside: manager > loader > log > recovery | snapshots > segment > index > filesystem."""
