"""The process: a broker, a controller, or both; its start, its limits, its metrics and its end."""
