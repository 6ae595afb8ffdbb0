"""Restarts of pods one by one, scaling, and pods that fail."""
