"""The client's side of TLS and SASL. Pure state machines; `client_security` opens transports."""
