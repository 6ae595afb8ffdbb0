"""Brokers as pods: which there are, what they run, and why one fails."""
