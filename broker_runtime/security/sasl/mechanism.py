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
"""The mechanisms that this broker has. GSSAPI (Kerberos), Kafka's default, is missing."""


class SaslRefusedError(Exception):
    """Error for a client that has not proved its identity.

    `shown` is the text for the client; None: the text names only the mechanism, so that an unknown user and a wrong
    password look alike. The message is for the broker's log. Neither contains a secret.
    """

    def __init__(self, message: str, shown: str | None = None) -> None:
        super().__init__(message)
        self.shown = shown


@dataclass(frozen=True, slots=True)
class Challenge:
    """The result of a step that expects an answer: bytes for the client."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The result of a successful exchange: the client is the user `name`.

    `token` are the last bytes for the client. `expires_ms` is the time, in milliseconds since 1970, at which the
    credential expires; None if it does not.
    """

    name: str
    token: bytes = b""
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True)
class OffloadedCheck:
    """The result of a step with work that takes too long for the event loop, and may run in another thread.

    `ServerMechanism.checked` gets the result of the work, which raises nothing.
    """

    work: Callable[[], object]


Step = Challenge | Authenticated | OffloadedCheck


class ServerMechanism(Protocol):
    """The server's side of one authentication with a SASL mechanism."""

    def step(self, token: bytes, /) -> Step:
        """Process the client's next bytes in the exchange of the SASL mechanism. Raises SaslRefusedError."""
        ...

    def checked(self, result: object, /) -> Step:
        """Process the result of a check of credentials in a thread. Raises SaslRefusedError."""
        ...


class OneMessageMechanism:
    """The base of mechanisms that never return an OffloadedCheck."""

    def checked(self, result: object, /) -> Step:
        raise AssertionError(f"{type(self).__name__} has no checks")
