"""`sluicegate up`: its counterparts of the operator's Kubernetes parts, below the same reconcilers."""
