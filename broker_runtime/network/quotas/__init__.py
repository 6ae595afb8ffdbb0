"""Limits on connections and on their rate, for the broker, its listeners, its groups and its addresses."""
