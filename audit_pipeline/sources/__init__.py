"""The sources of events: landed segments, and a topic."""
