"""Where a listener is opened or reached, and by which security protocol. Pure."""

from dataclasses import dataclass
from enum import IntEnum


class SecurityProtocol(IntEnum):
    """How the bytes of a connection are protected: Kafka's names, and the numbers that stand for them on the wire."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


SERVED = (SecurityProtocol.PLAINTEXT,)
"""What this broker has built. The others are refused where they are configured, and not dialled."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """What a client must know to connect; an IPv6 address stands without brackets."""

    host: str
    port: int
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a listener, by the listener's name in upper case; an IPv6 address stands without brackets."""

    listener: str
    host: str
    port: int
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def __str__(self) -> str:
        return f"{self.listener}://{ServerAddress(self.host, self.port)}"
