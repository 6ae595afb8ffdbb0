"""Storms of connections: their seconds, their episodes, and what others felt. Pure."""
