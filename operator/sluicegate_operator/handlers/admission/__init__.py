"""Warnings at `kubectl apply`: the webhook's server, its certificate, and the world that it compares with."""
