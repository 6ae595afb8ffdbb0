"""How the consumer proves to brokers who it is: credentials, and their exchange on a connection."""
