"""The push protocol, and the calls that a broker sends to its consumers."""
