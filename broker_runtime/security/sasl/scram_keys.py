"""The keys of SCRAM (RFC 5802, RFC 7677): what a server keeps instead of a password, and how it is derived. Pure."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from broker_runtime.security.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512

ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16_384
"""Largest number of iterations that Apache Kafka stores. A server may not ask a client for more work than this."""

_HASHES: Mapping[str, str] = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """The credential of one user for one mechanism. The password can only be found by trying."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


class ScramHash:
    """The functions of one SCRAM mechanism."""

    def __init__(self, mechanism: str) -> None:
        self.mechanism = mechanism
        self._name = _HASHES[mechanism]

    def hash(self, data: bytes) -> bytes:
        """Return the hash of `data`: H(data) in the specification of SCRAM."""
        return hashlib.new(self._name, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """Return the keyed hash of `data`: HMAC(key, data) in the specification of SCRAM."""
        return hmac.digest(key, data, self._name)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return Hi(password, salt, iterations), without SASLprep, as in Apache Kafka. This takes milliseconds."""
        return hashlib.pbkdf2_hmac(self._name, password.encode(), salt, iterations)

    def client_key(self, salted_password: bytes) -> bytes:
        return self.hmac(salted_password, b"Client Key")

    def server_key(self, salted_password: bytes) -> bytes:
        return self.hmac(salted_password, b"Server Key")

    def keys(self, salted_password: bytes, salt: bytes, iterations: int) -> ScramKeys:
        """Return the credential that belongs to a salted password."""
        stored = self.hash(self.client_key(salted_password))
        return ScramKeys(salt, stored, self.server_key(salted_password), iterations)


def xored(one: bytes, other: bytes) -> bytes:
    """Return the bitwise exclusive or of two byte strings of equal length."""
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
