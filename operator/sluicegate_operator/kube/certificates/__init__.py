"""Certificates of the webhook and of clusters, made in processes of their own."""
