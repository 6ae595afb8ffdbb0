"""The area of SCRAM credentials (KIP-554). Pure.

The credentials of a user are in Kafka's UserScramCredentialRecord and RemoveUserScramCredentialRecord, here under tags
of their own. A broker of an earlier release cannot read them.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple, Self

from broker_runtime.metadata.areas.area import ReadOnlyTable
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps

SCRAM_NUMBERS: Mapping[int, str] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Kafka's numbers of the SCRAM mechanisms."""


class UserScramCredentialRecord(MetadataRecord, frozen=True, tag=15):
    """Record that sets the credential of a user for a mechanism."""

    name: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"UserScramCredentialRecord({self.name!r}, {self.mechanism})"


class RemoveUserScramCredentialRecord(MetadataRecord, frozen=True, tag=16):
    """Record that removes the credential of a user for a mechanism."""

    name: str
    mechanism: int


class ScramCredential(NamedTuple):
    """The SCRAM credential of a user for one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


class ScramCredentials(ReadOnlyTable[str, Mapping[int, ScramCredential]]):
    """The credentials by user, and then by the number of the mechanism."""

    __slots__ = ()
    RECORDS: ClassVar[tuple[type[MetadataRecord], ...]] = (UserScramCredentialRecord, RemoveUserScramCredentialRecord)

    def apply(self, record: MetadataRecord, offset: int | None, changes: Changes) -> None:
        match record:
            case UserScramCredentialRecord():
                credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
                known = self._entries.get(record.name, {})
                self._entries[record.name] = {**known, record.mechanism: credential}
            case RemoveUserScramCredentialRecord():
                left = {
                    mechanism: credential
                    for mechanism, credential in self._entries.get(record.name, {}).items()
                    if mechanism != record.mechanism
                }
                if left:
                    self._entries[record.name] = left
                else:
                    self._entries.pop(record.name, None)

    def records(self) -> Iterator[MetadataRecord]:
        for name in sorted(self._entries):
            for mechanism, credential in sorted(self._entries[name].items()):
                yield UserScramCredentialRecord(name, mechanism, *credential)

    def note_differences(self, newer: Self, changes: Changes) -> Steps[None]:
        """Record no changes: a credential is looked up when a client authenticates."""
        return
        yield
