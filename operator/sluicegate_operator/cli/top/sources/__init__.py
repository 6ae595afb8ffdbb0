"""Sources of the console: `sluicegate up`, a Kubernetes namespace, a bootstrap server."""
