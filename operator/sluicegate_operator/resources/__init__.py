"""Kubernetes manifests as plain dicts, built from models and layouts. Pure; one module for each kind."""
