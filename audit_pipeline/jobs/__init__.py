"""Where Spark runs: only here a session is begun, elsewhere it is a parameter."""
