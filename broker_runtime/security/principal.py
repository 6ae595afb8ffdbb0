"""Principals: the names under which clients are authorized, counted and observed (KIP-11). Pure."""

from dataclasses import dataclass

USER = "User"
"""The only type of principal that authentication sets."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity of a client, written as `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""The principal of a client without authentication, by Kafka's name."""

UNAUTHENTICATED = Principal(USER, "ANONYMOUS")
"""The principal of a client that has to authenticate, until it has. It equals ANONYMOUS but is another object."""

THIS_NODE = Principal("Node", "local")
"""The broker in the same process as the controller. Only this object is trusted: no client can take its name."""
