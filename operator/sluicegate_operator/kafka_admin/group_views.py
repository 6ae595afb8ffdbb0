"""What coordinators say of groups, as frozen values in Kafka's own words; nothing here knows the wire format."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate_operator.kafka_admin.views import BrokerView, Partition

CLASSIC, CONSUMER = "classic", "consumer"
"""Types of groups: of JoinGroup and SyncGroup, and of KIP-848."""

NO_MEMBERS = frozenset({"Empty", "Dead"})
"""States in which nobody consumes. Dead is a group that is not there."""


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as ListGroups tells of it. `protocol_type` is empty for one that only keeps offsets."""

    id: str
    state: str
    type: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """`partitions` is what it holds now; `epoch` is None where the protocol has none for each member."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[Partition, ...]
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as its coordinator tells of it. `assignor` is empty while none was chosen, `epoch` is KIP-848's."""

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
"""By the group's id."""
