"""What a reader wants first, in sentences: is the audit complete, what changed, who caused the last storm. Pure."""
