"""The client's side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677; KIP-84).

Pure: the caller passes random characters. Kafka applies no SASLprep, so a password is its UTF-8 bytes.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kafka_bytes.printable import printable
from kafka_bytes.sasl.mechanisms import SaslError

SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_512 = "SCRAM-SHA-512"
HASHES: Final[Mapping[str, str]] = MappingProxyType({SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"})
"""Names of SCRAM's hash functions, by mechanism."""
SCRAM_MECHANISMS = tuple(HASHES)
ITERATIONS_MIN = 4096
ITERATIONS_MAX = 200_000
"""Limit of iterations: a broker that requests more is refused, because each costs the client processor time.

Kafka allows 16384.
"""
_GS2_HEADER = "n,,"
_SERVER_NONCE_MAX = 512
_TOLD_MAX = 64


class ScramExchange:
    """The mechanism SCRAM without channel binding.

    The server's signature is verified, so an impostor cannot complete it.
    """

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        """`nonce`: printable ASCII characters without a comma, new and random for each exchange."""
        self.mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        return f"{_GS2_HEADER}{self._first_bare}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if self._server_signature is None:
            return self._final(challenge)
        self._verify(challenge, self._server_signature)
        return None

    def _final(self, challenge: bytes) -> bytes:
        text, attributes = _attributes(challenge)
        nonce = attributes.get("r", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce or len(nonce) > _SERVER_NONCE_MAX:
            raise SaslError("the broker's SCRAM message does not continue the client's nonce")
        salt, iterations = _decoded(attributes.get("s", "")), _number(attributes.get("i", ""))
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise SaslError(
                f"the broker requests {iterations} iterations of SCRAM, and {ITERATIONS_MIN} to {ITERATIONS_MAX} are"
                " allowed"
            )
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        bound = base64.b64encode(_GS2_HEADER.encode()).decode()
        without_proof = f"c={bound},r={nonce}"
        signed = f"{self._first_bare},{text},{without_proof}".encode()
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(key ^ sign for key, sign in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, challenge: bytes, expected: bytes) -> None:
        _, attributes = _attributes(challenge)
        if "e" in attributes:
            raise SaslError(f"the broker refused the SCRAM proof: {printable(attributes['e'])[:_TOLD_MAX]}")
        if not hmac.compare_digest(_decoded(attributes.get("v", "")), expected):
            raise SaslError("the broker's SCRAM signature is wrong: it does not know the password of this user")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self._hash).digest()


def _attributes(message: bytes) -> tuple[str, dict[str, str]]:
    """Return the text of a SCRAM message, and its attributes by letter."""
    try:
        text = message.decode("ascii")
    except UnicodeDecodeError:
        raise SaslError("the broker's SCRAM message is not text") from None
    parts = [part.partition("=") for part in text.split(",")]
    return text, {name: value for name, _, value in parts}


def _decoded(text: str) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SaslError("the broker's SCRAM message is not base64 where it must be") from None
    if not found:
        raise SaslError("the broker's SCRAM message lacks the salt or the signature")
    return found


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise SaslError("the broker's SCRAM message has no number of iterations")
    return int(text)
