"""The answers at the top, in sentences: is the audit complete, what changed, who caused the last storm. Pure."""
