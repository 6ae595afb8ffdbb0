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
    """Error for an exchange that cannot succeed. Its message is half a sentence for users."""


class SaslExchange(Protocol):
    """The client's side of one authentication.

    Call `first` once, then `respond` for each challenge until `respond` returns None.
    """

    @property
    def mechanism(self) -> str:
        """Return Kafka's name of the SASL mechanism."""

    def first(self) -> bytes:
        """Return the first token that the client sends."""

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the token that answers the broker's challenge; None if the exchange is complete. Raises SaslError."""


class PlainExchange:
    """The mechanism PLAIN: one token with the user name and the password."""

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
    """The mechanism OAUTHBEARER: one token with a bearer token.

    A broker that rejects the token sends a challenge in JSON. The client acknowledges it, and then the broker ends the
    exchange.
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
    """Return the broker's reason for a rejected authentication, as words of an error message."""
    if not message:
        return "the broker gave no reason"
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):
        return message[:_TOLD_MAX]
    status = found.get("status") if isinstance(found, dict) else None
    return str(status)[:_TOLD_MAX] if status else message[:_TOLD_MAX]
