"""Where Spark runs: the only modules that have a session."""
