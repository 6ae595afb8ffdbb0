"""The offsets of groups: commit, fetch, delete, expire. Pure: each decision is a function of the state."""
