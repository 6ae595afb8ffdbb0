"""The interface of SASL mechanisms for servers; `kafka_bytes.sasl` has the client's side. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

GSSAPI, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER = (
    "GSSAPI",
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER",
)
SERVED_MECHANISMS: Sequence[str] = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
"""The mechanisms that this broker has. GSSAPI (Kerberos), Kafka's default, is not one of them."""


class SaslRefusedError(Exception):
    """The client has not proved its identity.

    `shown` is the text for the client; None: the text names only the mechanism, so that an unknown user and a wrong
    password look alike. The message is for the broker's log. Neither contains a secret.
    """

    def __init__(self, message: str, shown: str | None = None) -> None:
        super().__init__(message)
        self.shown = shown


@dataclass(frozen=True, slots=True)
class Challenge:
    """Bytes for the client, which has to answer."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The client is the user `name`. `token` are the last bytes for it.

    `expires_ms` is the time, in milliseconds since 1970, at which the credential expires; None if it does not.
    """

    name: str
    token: bytes = b""
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True)
class OffloadedCheck:
    """Work that takes too long for the event loop. It may run in another thread.

    The mechanism gets its result in `ServerMechanism.checked`. It raises nothing.
    """

    work: Callable[[], object]


Step = Challenge | Authenticated | OffloadedCheck


class ServerMechanism(Protocol):
    """The server's side of one exchange of a mechanism."""

    def step(self, token: bytes, /) -> Step:
        """Process the client's next bytes. Raises SaslRefusedError."""
        ...

    def checked(self, result: object, /) -> Step:
        """Process the result of an OffloadedCheck. Raises SaslRefusedError."""
        ...


class OneMessageMechanism:
    """The base of mechanisms that never return an OffloadedCheck."""

    def checked(self, result: object, /) -> Step:
        raise AssertionError(f"{type(self).__name__} has no checks")
