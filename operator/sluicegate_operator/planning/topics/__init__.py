"""Topics, and the reassignment of their replicas."""
