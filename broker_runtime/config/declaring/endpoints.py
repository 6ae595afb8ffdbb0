"""The addresses of listeners, to open or to connect to, and their security protocols. Pure."""

from dataclasses import dataclass
from enum import IntEnum


class SecurityProtocol(IntEnum):
    """The protection of a connection's bytes: Kafka's names, and their numbers on the wire."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


ENCRYPTED = (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)
"""The protocols that use TLS."""
SASL = (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
"""The protocols whose clients authenticate by SASL."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The endpoint to which a client connects. An IPv6 address has no brackets."""

    host: str
    port: int
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a listener, by the listener's name in upper case. An IPv6 address has no brackets."""

    listener: str
    host: str
    port: int
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def __str__(self) -> str:
        return f"{self.listener}://{ServerAddress(self.host, self.port)}"
