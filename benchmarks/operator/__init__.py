"""The operator alone: many clusters and quotas under one operator process and a real API server.

The brokers and their pods are played (tests/support/served_clusters.py), by the process that measures: it shares the
machine's cores with the API server, etcd and the operator. What is measured is the operator: memory, processor time,
requests, and how long it takes until brokers have been told.
"""
