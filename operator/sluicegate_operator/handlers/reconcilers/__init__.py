"""One reconciler for each kind of object, called by its work queue."""
