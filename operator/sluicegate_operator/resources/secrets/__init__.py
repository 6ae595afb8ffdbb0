"""Secrets that the operator makes."""
