"""`make demo`: measures and reports how a limit holds back a storm of connections, with real brokers and a client."""
