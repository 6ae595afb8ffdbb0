"""`make demo`: real brokers, a real client, a storm of connections and a limit that holds it back, all measured."""
