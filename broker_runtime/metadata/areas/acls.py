"""The area of access control lists (KIP-801), and their index, which authorizers read. Pure."""

from collections.abc import Iterator
from typing import ClassVar, Self
from uuid import UUID

from broker_runtime.metadata.areas.area import ReadOnlyTable
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.security.acls.index import AclIndex
from broker_runtime.security.acls.model import Acl
from broker_runtime.slicing.steps import Steps


class AccessControlEntryRecord(MetadataRecord, frozen=True, tag=18):
    """Record that adds an ACL. The fields are those of Kafka's record, with the numbers of the protocol."""

    id: UUID
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def acl(self) -> Acl:
        return Acl(
            self.resource_type,
            self.resource_name,
            self.pattern_type,
            self.principal,
            self.host,
            self.operation,
            self.permission_type,
        )


class RemoveAccessControlEntryRecord(MetadataRecord, frozen=True, tag=19):
    """Record that removes the ACL with this id."""

    id: UUID


class Acls(ReadOnlyTable[UUID, Acl]):
    """The ACLs by id. Copies share the index until one of them changes."""

    __slots__ = ("_ids", "_index", "text_bytes")
    RECORDS: ClassVar[tuple[type[MetadataRecord], ...]] = (AccessControlEntryRecord, RemoveAccessControlEntryRecord)

    def __init__(self) -> None:
        super().__init__()
        self._ids: dict[Acl, UUID] = {}
        self._index = AclIndex()
        self.text_bytes = 0
        """Bytes of all names, principals and hosts."""

    @property
    def index(self) -> AclIndex:
        """Return the ACLs by resource, for reading only."""
        return self._index

    def id_of(self, acl: Acl) -> UUID | None:
        """Return the id of this ACL; None if the ACL does not exist."""
        return self._ids.get(acl)

    def apply(self, record: MetadataRecord, offset: int | None, changes: Changes) -> None:
        match record:
            case AccessControlEntryRecord():
                acl = record.acl()
                if record.id in self._entries or acl in self._ids:
                    raise ValueError(f"the ACL {record.id} exists already, or another one is equal to it")
                self._own_index().add(acl)
                self._entries[record.id] = acl
                self._ids[acl] = record.id
                self.text_bytes += acl.text_bytes
            case RemoveAccessControlEntryRecord():
                if record.id not in self._entries:
                    raise ValueError(f"the ACL {record.id}, which a record removes, does not exist")
                acl = self._entries.pop(record.id)
                del self._ids[acl]
                self.text_bytes -= acl.text_bytes
                self._own_index().remove(acl)

    def _own_index(self) -> AclIndex:
        if self._index.is_shared:
            self._index = self._index.copy()
        return self._index

    def records(self) -> Iterator[MetadataRecord]:
        for acl_id in sorted(self._entries):
            yield AccessControlEntryRecord(acl_id, *self._entries[acl_id])

    def copy(self) -> Self:
        other = super().copy()
        other._ids = self._ids.copy()
        other._index = self._index
        other.text_bytes = self.text_bytes
        self._index.is_shared = True
        return other

    def note_differences(self, newer: Self, changes: Changes) -> Steps[None]:
        """Record no changes: authorizers read the ACLs at each check."""
        yield
