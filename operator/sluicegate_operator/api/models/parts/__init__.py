"""Parts of the kinds' specs and statuses, each in a module of its subject."""
