"""The rows of `make bench`: what each measures, with the clusters and the workloads that it needs."""
