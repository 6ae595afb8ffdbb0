"""Kafka's log on disk. Which module may use which is a contract in pyproject.toml."""
