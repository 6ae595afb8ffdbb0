"""The offsets that groups commit: commit, fetch, delete, expire. Pure: each decision is a function of the state."""
