"""`make demo`: real brokers, a client, a storm of connections and a limit that holds it back, measured and reported."""
