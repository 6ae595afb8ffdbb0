"""Results and events that are read: published versions, live events, queries."""
