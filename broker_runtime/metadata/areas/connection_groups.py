"""The area of connection groups: addresses and ranges that share settings of connection limits. Pure.

They are stored as client quotas (KIP-546) of entity types of Sluicegate: `{connection-group: NAME}` has the limits.
`{connection-group: NAME, ip: ADDRESS-OR-RANGE}` with the key `member` adds a member, whose number distinguishes it from
a later user of the same address.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Self

from broker_runtime.metadata.areas.area import ReadOnlyTable, differing, either
from broker_runtime.metadata.areas.quotas import CONNECTION_GROUP, IP, MEMBER_KEY, ClientQuotaRecord, group_and_member
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps

MAX_CONNECTIONS_KEY = "max_connections"
SHARED_KEY = "shared"
"""Option of a group: 1 if all its members together share the limits, which otherwise apply to each address."""
OBSERVE_KEY = "observe"
"""Option of a group: 1 if its connections are not limited, but only counted if they would have been."""
CLUSTER_KEY = "cluster"
"""Option of a group: 1 if its rate is that of all brokers together; only with `shared` 1."""


@dataclass(slots=True)
class ConnectionGroup:
    """A connection group.

    `keys` are its limits and options; a group without keys limits no connection, whatever its members are.
    """

    keys: dict[str, float] = field(default_factory=dict)
    members: dict[str, float] = field(default_factory=dict)
    """Addresses and ranges in canonical form, each with the number that identifies its user."""

    @property
    def is_cluster_wide(self) -> bool:
        """Whether the rate is that of all brokers together."""
        return self.keys.get(CLUSTER_KEY) == 1


class ConnectionGroupTable(ReadOnlyTable[str, ConnectionGroup]):
    """The groups by name, each with keys, members or both."""

    __slots__ = ("_own", "cluster_wide_total", "members_total")
    RECORDS: ClassVar[tuple[type[MetadataRecord], ...]] = (ClientQuotaRecord,)

    def __init__(self) -> None:
        super().__init__()
        self.members_total = 0
        self.cluster_wide_total = 0
        """Number of groups whose rate is that of all brokers together."""
        self._own: set[str] = set()
        """Names of groups that are not shared with a copy: a change of one member must not copy all groups."""

    def apply(self, record: MetadataRecord, offset: int | None, changes: Changes) -> None:
        match record:
            case ClientQuotaRecord():
                about = group_and_member(record)
                if about is not None:
                    self._change(*about, record)
                    changes.connection_groups.add(about)

    def _change(self, name: str, member: str | None, record: ClientQuotaRecord) -> None:
        group = self._owned(name)
        before, was_cluster_wide = len(group.members), group.is_cluster_wide
        if member is None:
            if record.value is None:
                group.keys.pop(record.key, None)
            else:
                group.keys[record.key] = record.value
        elif record.value is None:
            group.members.pop(member, None)
        else:
            group.members[member] = record.value
        self.members_total += len(group.members) - before
        self.cluster_wide_total += group.is_cluster_wide - was_cluster_wide
        if not group.keys and not group.members:
            del self._entries[name]
            self._own.discard(name)

    def _owned(self, name: str) -> ConnectionGroup:
        if name not in self._own:
            shared = self._entries.get(name, ConnectionGroup())
            self._entries[name] = ConnectionGroup(dict(shared.keys), dict(shared.members))
            self._own.add(name)
        return self._entries[name]

    def records(self) -> Iterator[MetadataRecord]:
        for name in sorted(self._entries):
            group = self._entries[name]
            entity = ((CONNECTION_GROUP, name),)
            for key in sorted(group.keys):
                yield ClientQuotaRecord(entity, key, group.keys[key])
            for member in sorted(group.members):
                yield ClientQuotaRecord((*entity, (IP, member)), MEMBER_KEY, group.members[member])

    def copy(self) -> Self:
        other = super().copy()
        other.members_total = self.members_total
        other.cluster_wide_total = self.cluster_wide_total
        self._own = set()
        return other

    def note_differences(self, newer: Self, changes: Changes) -> Steps[None]:
        for name in either(self, newer):
            yield
            was, now = self.get(name, ConnectionGroup()), newer.get(name, ConnectionGroup())
            if was.keys != now.keys:
                changes.connection_groups.add((name, None))
            members = yield from differing(was.members, now.members)
            changes.connection_groups.update((name, member) for member in members)
