"""One page for people, made of the published results."""
