"""The configuration that is in force: static, dynamic, and in which order."""
