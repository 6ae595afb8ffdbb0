"""The keys, by what they configure."""
