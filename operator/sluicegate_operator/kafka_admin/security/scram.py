"""New credentials of SCRAM-SHA-256 and SCRAM-SHA-512 for brokers (KIP-554). Pure: the caller passes random bytes."""

import hashlib
from dataclasses import dataclass, field
from enum import IntEnum

from kafka_bytes.sasl.scram import HASHES


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms, with their numbers in Kafka's records and requests."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def label(self) -> str:
        """Return Kafka's name of the SCRAM mechanism."""
        return self.name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A SCRAM credential, with which a broker verifies a password that it never gets."""

    mechanism: ScramMechanism
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


def new_credential(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> ScramCredential:
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism.label], password.encode(), salt, iterations)
    return ScramCredential(mechanism, iterations, salt, salted)
