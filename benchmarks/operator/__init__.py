"""The operator alone: many clusters and quotas under one operator process and a real API server.

The measuring process plays the brokers and their pods (tests/support/worlds/served_clusters.py); it shares the
machine's cores with the API server, etcd and the operator. Only the operator is measured: its memory, processor time,
requests, and the time until limits reach the brokers.
"""
