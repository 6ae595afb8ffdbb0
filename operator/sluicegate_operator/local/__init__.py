"""`sluicegate up`: what it has where the operator has Kubernetes, below the same reconcilers."""
