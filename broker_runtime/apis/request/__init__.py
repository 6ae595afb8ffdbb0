"""The call that a handler gets, the broker that it sees, and the dispatch from a request's bytes to its answer."""
