"""PLAIN (RFC 4616): a user name and a password. Pure.

Texts are UTF-8 and are compared as they are, without the preparation of RFC 4616, as in Apache Kafka.
"""

import hmac
from collections.abc import Mapping

from broker_runtime.security.sasl.mechanism import Authenticated, OneMessageMechanism, SaslRefusedError, Step

_PARTS = 3


class PlainServer(OneMessageMechanism):
    """The server's side of PLAIN: checks passwords against `passwords`, by user name."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def step(self, token: bytes, /) -> Step:
        """Process the only message: authorization id, user name and password, separated by NUL characters."""
        parts = token.count(b"\0") + 1
        if parts != _PARTS:
            raise _refused(f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {parts}")
        try:
            authorization_id, user, password = token.decode().split("\0")
        except UnicodeDecodeError:
            raise SaslRefusedError("the message is not UTF-8") from None
        for name, value in (("username", user), ("password", password)):
            if not value:
                raise _refused(f"Authentication failed: {name} not specified")
        known = self._passwords.get(user)
        # A comparison takes the same time for an unknown user.
        matches = hmac.compare_digest((password if known is None else known).encode(), password.encode())
        if known is None or not matches:
            raise _refused("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise _refused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return Authenticated(user)


def _refused(text: str) -> SaslRefusedError:
    return SaslRefusedError(text, text)
