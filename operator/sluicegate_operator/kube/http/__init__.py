"""Requests to the API server: their transport, their errors, and the kinds that it serves."""
