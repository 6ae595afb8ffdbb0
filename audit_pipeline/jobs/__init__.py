"""The Spark jobs: only this package starts a session; elsewhere it is a parameter."""
