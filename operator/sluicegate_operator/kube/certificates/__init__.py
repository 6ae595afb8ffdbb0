"""The webhook's certificates, made in a process of their own."""
