"""Connections that this broker opens to other brokers and controllers: a machine without a socket, and its shell."""
