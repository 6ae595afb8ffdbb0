"""The area of client quotas (KIP-546, KIP-612 as shipped). Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Self

from broker_runtime.metadata.areas.area import ReadOnlyTable, either, set_key
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps, chosen, in_order

IP_RATE_KEY = "connection_creation_rate"

CONNECTION_GROUP = "connection-group"
IP = "ip"
MEMBER_KEY = "member"
"""The key of an address or a range in a connection group.

A number from 1 on adds the member, and identifies its user: another number means another user.
"""

QuotaEntity = tuple[tuple[str, str | None], ...]
"""A client quota's entity: (entity type, name) pairs sorted by type.

A name of None is the default entity of its type.
"""


class ClientQuotaRecord(MetadataRecord, frozen=True, tag=9):
    """Record that sets one quota, or removes the quota if `value` is None.

    `entity` is sorted by type; a name of None is the default entity.
    """

    entity: tuple[tuple[str, str | None], ...]
    key: str
    value: float | None


def group_and_member(record: ClientQuotaRecord) -> tuple[str, str | None] | None:
    """Return the connection group of a record, and the member if the record sets one.

    None for a record of a client quota.
    """
    match record.entity:
        case ((kind, str(name)),) if kind == CONNECTION_GROUP:
            return name, None
        case ((kind, str(name)), (member_kind, str(member))) if (
            kind == CONNECTION_GROUP and member_kind == IP and record.key == MEMBER_KEY
        ):
            return name, member
    return None


def names_bytes(entity: QuotaEntity) -> int:
    """Return the bytes of the names in a quota's entity."""
    return sum(len(name.encode()) for _, name in entity if name is not None)


class Quotas(ReadOnlyTable[QuotaEntity, Mapping[str, float]]):
    """The client quotas of each entity that has any, by key. Connection groups have an area of their own."""

    __slots__ = ("_sorted", "client_keys", "names_bytes")
    RECORDS: ClassVar[tuple[type[MetadataRecord], ...]] = (ClientQuotaRecord,)

    def __init__(self) -> None:
        super().__init__()
        self.client_keys: dict[str, int] = {}
        """Number of entities of users and client ids that have a quota, by key; a key without quotas is missing."""
        self.names_bytes = 0
        """Bytes of the names of all entities."""
        self._sorted: Sequence[QuotaEntity] | None = None
        """The entities in the order of `records`; None if they were not sorted since the last change."""

    def ip_rate(self, ip: str | None) -> float | None:
        """Return the connection creation rate set for exactly this `ip` entity; None is the default entity."""
        return self._entries.get(((IP, ip),), {}).get(IP_RATE_KEY)

    def apply(self, record: MetadataRecord, offset: int | None, changes: Changes) -> None:
        match record:
            case ClientQuotaRecord() if group_and_member(record) is None:
                self._sorted = None
                had = record.key in self._entries.get(record.entity, {})
                was_known = record.entity in self._entries
                set_key(self._entries, record.entity, record.key, record.value)
                self.names_bytes += names_bytes(record.entity) * ((record.entity in self._entries) - was_known)
                if record.key == IP_RATE_KEY:
                    changes.ip_quotas |= _ips([record.entity])
                if _is_client(record.entity):
                    changes.client_quotas.add(record.key)
                    self._count(record.key, (record.value is not None) - had)

    def _count(self, key: str, more: int) -> None:
        count = self.client_keys.get(key, 0) + more
        if count:
            self.client_keys[key] = count
        else:
            self.client_keys.pop(key, None)

    def copy(self) -> Self:
        other = super().copy()
        other.client_keys = self.client_keys.copy()
        other.names_bytes = self.names_bytes
        return other

    def sort(self) -> Steps[None]:
        """Sort the entities before `records`, whose first record otherwise takes as long as sorting all of them.

        No record is applied meanwhile.
        """
        self._sorted = yield from in_order(self._entries, repr)

    def records(self) -> Iterator[MetadataRecord]:
        for entity in self._sorted if self._sorted is not None else sorted(self._entries, key=repr):
            quotas = self._entries[entity]
            for key in sorted(quotas):
                yield ClientQuotaRecord(entity, key, quotas[key])

    def note_differences(self, newer: Self, changes: Changes) -> Steps[None]:
        def differs(entity: QuotaEntity) -> bool:
            return any(self.ip_rate(ip) != newer.ip_rate(ip) for ip in _ips([entity]))

        changes.ip_quotas |= _ips((yield from chosen(either(self, newer), differs)))
        for entity in either(self, newer):
            yield
            if _is_client(entity):
                was, now = self.get(entity, {}), newer.get(entity, {})
                changes.client_quotas.update(key for key in {*was, *now} if was.get(key) != now.get(key))


def _is_client(entity: QuotaEntity) -> bool:
    """Whether the entity is a user, a client id, or both."""
    return all(kind != IP for kind, _ in entity)


def _ips(entities: list[QuotaEntity]) -> set[str | None]:
    """Return the names of the entities that are an address alone."""
    return {entity[0][1] for entity in entities if len(entity) == 1 and entity[0][0] == IP}
