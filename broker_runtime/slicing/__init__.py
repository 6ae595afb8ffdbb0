"""Long work in slices, so that no turn of the event loop is long."""
