"""Where events come from: landed segments, and a topic."""
