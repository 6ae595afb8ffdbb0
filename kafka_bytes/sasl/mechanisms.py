"""The client's side of PLAIN (RFC 4616) and OAUTHBEARER (RFC 7628), and what all mechanisms have in common. Pure.

A mechanism gets the challenges of the broker and returns the tokens of SaslAuthenticate (KIP-152). SCRAM is in
`scram`. No error text contains a password or a token.
"""

import json
from typing import Protocol

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
_TOLD_MAX = 200
"""Most characters of a broker's own words that an error repeats."""


class SaslError(Exception):
    """The exchange cannot succeed; the message is half a sentence for users."""


class SaslExchange(Protocol):
    """One authentication: `first` once, then `respond` for each challenge until it returns None."""

    @property
    def mechanism(self) -> str:
        """Kafka's name of the mechanism."""

    def first(self) -> bytes:
        """Return the first token."""

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the next token; None if the exchange is complete. Raises SaslError."""


class PlainExchange:
    """PLAIN: one token with the user name and the password."""

    mechanism = PLAIN

    def __init__(self, username: str, password: str) -> None:
        if "\0" in username or "\0" in password:
            raise SaslError("a user name or password of PLAIN must not contain the character NUL")
        self._token = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def respond(self, challenge: bytes) -> bytes | None:
        return None


class BearerExchange:
    """OAUTHBEARER: one token with a bearer token.

    A broker refuses it by a challenge in JSON, which the client acknowledges before the broker ends the exchange.
    """

    mechanism = OAUTHBEARER

    def __init__(self, token: str) -> None:
        if not token or any(character.isspace() or not character.isprintable() for character in token):
            raise SaslError("an access token must be one line of printable characters without blanks")
        self._token = f"n,,\x01auth=Bearer {token}\x01\x01".encode()

    def first(self) -> bytes:
        return self._token

    def respond(self, challenge: bytes) -> bytes | None:
        return b"\x01" if challenge else None


def refusal_words(message: str | None) -> str:
    """Return the broker's reason for a refused authentication, for an error text."""
    if not message:
        return "the broker gave no reason"
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):
        return message[:_TOLD_MAX]
    status = found.get("status") if isinstance(found, dict) else None
    return str(status)[:_TOLD_MAX] if status else message[:_TOLD_MAX]
