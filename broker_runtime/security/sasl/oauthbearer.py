"""OAUTHBEARER (RFC 7628): a bearer token. Pure; another thread checks the token.

A refused token is answered with a JSON text, which the client acknowledges with one byte. Only then the exchange fails.
"""

import re
from collections.abc import Callable

from broker_runtime.security.sasl.mechanism import Authenticated, Challenge, OffloadedCheck, SaslRefusedError, Step

INVALID_TOKEN = '{"status":"invalid_token"}'
_OTHER_NAME = (
    "Authentication failed: Client requested an authorization id that is different from the token's principal name"
)
_PAIRS_MAX = 100
"""Pairs of a message. Very many would hold the event loop for milliseconds."""
_NAME = r"(?:[^,=\0\x01]++|=2C|=3D)++"
_MESSAGE = re.compile(
    rf"n,(?:a=(?P<authorization>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]++=[\x20-\x7e\t\r\n]*+\x01)*+)\x01", re.DOTALL
)
_CREDENTIAL = re.compile(r"(?P<scheme>[A-Za-z]+) (?P<token>[-_~+/.A-Za-z0-9]++=*+)")

Verify = Callable[[str], "Authenticated | SaslRefusedError"]
"""A function that checks a token, in another thread. It returns the error instead of raising it."""


class OAuthBearerServer:
    """The server's side of one OAUTHBEARER exchange. `verify` is called in another thread."""

    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self._authorization_id = ""
        self._refused: str | None = None
        """Why the token was refused, for the log."""

    def step(self, token: bytes, /) -> Step:
        """Process the client's token, or its acknowledgement of a refusal."""
        if self._refused is not None:
            raise SaslRefusedError(self._refused, INVALID_TOKEN)
        self._authorization_id, bearer = _read(token)
        return OffloadedCheck(lambda: self._verify(bearer))

    def checked(self, result: object, /) -> Step:
        """Process the result of `verify`, the check of the token."""
        if isinstance(result, Authenticated):
            if self._authorization_id not in ("", result.name):
                raise SaslRefusedError(_OTHER_NAME, _OTHER_NAME)
            return result
        self._refused = str(result)
        return Challenge(INVALID_TOKEN.encode())


def _read(message: bytes) -> tuple[str, str]:
    """Return the authorization id and the token of the client's message."""
    if message.count(b"\x01") > _PAIRS_MAX:
        raise SaslRefusedError(f"the message has more than {_PAIRS_MAX} pairs of keys and values")
    try:
        found = _MESSAGE.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise SaslRefusedError("the message is not of OAUTHBEARER's form")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
    credential = _CREDENTIAL.fullmatch(pairs.get("auth", ""))
    if credential is None or credential["scheme"].lower() != "bearer":
        raise SaslRefusedError("the message has no bearer token")
    name = (found["authorization"] or "").replace("=2C", ",").replace("=3D", "=")
    return name, credential["token"]
