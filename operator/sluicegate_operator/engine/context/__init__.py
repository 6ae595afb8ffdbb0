"""What all reconcilers share: the context they ask, a cluster's objects and progress, and pools of connections."""
