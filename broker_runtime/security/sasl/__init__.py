"""Authentication by SASL (RFC 4422): mechanisms and the exchange of one connection. Pure."""
