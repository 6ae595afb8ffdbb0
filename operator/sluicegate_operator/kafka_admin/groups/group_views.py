"""Coordinators' answers about groups, as frozen values in Kafka's terms, without the wire format."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate_operator.kafka_admin.views import BrokerView, Partition

CLASSIC, CONSUMER = "classic", "consumer"
"""Types of groups: the classic type of JoinGroup and SyncGroup, and that of KIP-848."""

NO_MEMBERS = frozenset({"Empty", "Dead"})
"""States of groups without consumers. Dead is the state of a group that does not exist."""


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group of consumers as ListGroups reports it. `protocol_type` is empty for a group that only keeps offsets."""

    id: str
    state: str
    type: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group.

    `partitions` is the member's present assignment; `epoch` is None if its protocol has no epochs of members.
    """

    id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[Partition, ...]
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as its coordinator reports it.

    `assignor` is empty while none was chosen; `epoch` is that of KIP-848.
    """

    id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    epoch: int | None = None

    @property
    def exists(self) -> bool:
        return self.state != "Dead"

    @property
    def is_empty(self) -> bool:
        return self.state in NO_MEMBERS


Coordinators = Mapping[str, BrokerView]
"""The coordinator of each group, by the group's id."""
