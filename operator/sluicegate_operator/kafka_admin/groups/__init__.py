"""The admin protocol's requests about groups and their offsets."""
