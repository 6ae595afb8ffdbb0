"""Decides changes of SCRAM credentials (KIP-554), by Apache Kafka's rules. Pure.

The client derives a salted password, so that a controller never gets a password. The controller derives the keys. The
hash functions are imported with the first change, because they cost each process 4 MB (decision 45).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module

from broker_runtime.controller.capacity import check_records
from broker_runtime.errors import ErrorCode, KafkaError, detached
from broker_runtime.metadata.areas.scram_credentials import (
    SCRAM_NUMBERS,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps, chosen, drain, each, listed


@dataclass(frozen=True, slots=True)
class Deletion:
    """A request to remove one SCRAM credential of a user."""

    name: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class Upsertion:
    """A request to set one SCRAM credential of a user."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


_LENGTH_MAX = 1_024
"""Characters of a user's name, and bytes of its salt and its salted password, which has those of a hash: 32 or 64.

Every node keeps names and salts in memory. The keys of a longer password take long to derive.
"""
_KEYS = "broker_runtime.security.sasl.scram_keys"
Change = Deletion | Upsertion
Outcome = tuple[str, KafkaError | None]
"""A user, and the error because of which the user stays unchanged; None for a changed user."""


def alter_scram_credentials(
    changes: Sequence[Change], image: MetadataImage, users_max: int
) -> Steps[tuple[Sequence[MetadataRecord], list[Outcome]]]:
    """Return the records, and the outcome of each user: first the successes, then the errors, as in Apache Kafka.

    A request may name a user once, whatever the mechanism. Raises KafkaError if the request has too many changes, or
    the cluster would have too many users.
    """
    good: dict[str, MetadataRecord] = {}
    bad: dict[str, KafkaError] = {}
    for change in changes:
        name = change.name
        if name in bad:
            yield
            continue
        try:
            if name in good:
                del good[name]
                text = "A user credential cannot be altered twice in the same request"
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, text)
            good[name] = _deleted(change, image) if isinstance(change, Deletion) else _upserted(change)
        except KafkaError as error:
            bad[name] = detached(error)
        yield
    check_records(len(good))
    yield from _check_users(good, image, users_max)
    outcomes: list[Outcome] = []
    outcomes += yield from each(good, lambda name: (name, None))
    outcomes += yield from listed(bad.items())
    records = yield from listed(good.values())
    # Freeing these at once would take long.
    yield from drain(good)
    yield from drain(bad)
    return records, outcomes


def _check_users(good: Mapping[str, MetadataRecord], image: MetadataImage, users_max: int) -> Steps[None]:
    """Raise KafkaError(POLICY_VIOLATION) if the records would make too many users."""
    known = image.scram_credentials
    new = yield from chosen(
        good.items(), lambda item: item[0] not in known and isinstance(item[1], UserScramCredentialRecord)
    )
    total = len(known) + len(new)
    if new and total > users_max:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"The cluster would have {total} users with SCRAM credentials; at most {users_max} are allowed "
            "(sluicegate.scram.users.max). Delete the credentials of users that no longer exist.",
        )


def _deleted(change: Deletion, image: MetadataImage) -> MetadataRecord:
    _check(change.name, change.mechanism)
    if change.mechanism not in image.scram_credentials.get(change.name, {}):
        text = "Attempt to delete a user credential that does not exist"
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text)
    return RemoveUserScramCredentialRecord(change.name, change.mechanism)


def _upserted(change: Upsertion) -> MetadataRecord:
    mechanism = _check(change.name, change.mechanism)
    scram = import_module(_KEYS)
    if change.iterations < scram.ITERATIONS_MIN:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > scram.ITERATIONS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    for what, value in (("Username", change.name), ("Salt", change.salt), ("Salted password", change.salted_password)):
        if len(value) > _LENGTH_MAX:
            raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"{what} is longer than {_LENGTH_MAX}")
    keys = scram.ScramHash(mechanism).keys(change.salted_password, change.salt, change.iterations)
    return UserScramCredentialRecord(
        change.name, change.mechanism, keys.salt, keys.stored_key, keys.server_key, keys.iterations
    )


def _check(name: str, number: int) -> str:
    """Return the name of the mechanism."""
    if not name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = SCRAM_NUMBERS.get(number)
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return mechanism
