"""What a partition of __consumer_offsets says, as keys and values. Pure; `record_codec` has their bytes.

The names are those of Apache Kafka's record schemas. A value of None is a tombstone: what the key names is gone. What
groups have thousands of refers to nothing that refers to it, and the garbage collector does not look at it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct


class OffsetCommitKey(Struct, frozen=True, gc=False):
    """Type 1; 0, which older brokers wrote, is read as this."""

    group_id: str
    topic: str
    partition: int


class OffsetCommitValue(Struct, frozen=True, gc=False):
    """What a group has committed for a partition."""

    offset: int
    leader_epoch: int
    """-1 where the client said none."""
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """Only where a client of an old version asked for a retention of its own."""
    topic_id: UUID | None = None

    def is_of(self, topic_id: UUID) -> bool:
        """Whether it was committed for that topic, and not for an earlier one of the name. Older clients and brokers
        have left it open."""
        return self.topic_id in (None, topic_id)


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    """Type 2: a group of the classic protocol."""

    group_id: str


class ClassicMember(Struct, frozen=True, gc=False):
    """A member as it was when its rebalance was complete."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """Its metadata for the protocol that was chosen."""
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadataValue:
    """A group of the classic protocol, as its last rebalance has left it."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    """-1 where it is not known."""
    members: tuple[ClassicMember, ...]
    packed_members: bytes | None = field(default=None, compare=False, repr=False)
    """The members' bytes where they are there already: to pack thousands at once would hold the event loop too long."""


class ConsumerGroupMetadataKey(Struct, frozen=True, gc=False):
    """Type 3: a group of KIP-848."""

    group_id: str


class ConsumerGroupMetadataValue(Struct, frozen=True, gc=False):
    """The group epoch, and what the topics that it reads looked like then."""

    epoch: int
    metadata_hash: int = 0


class ConsumerGroupPartitionMetadataKey(Struct, frozen=True, gc=False):
    """Type 4, which brokers before 4.1 wrote: read and forgotten."""

    group_id: str


class ConsumerGroupMemberMetadataKey(Struct, frozen=True, gc=False):
    """Type 5."""

    group_id: str
    member_id: str


class ClassicProtocol(NamedTuple):
    """A protocol that a member supports."""

    name: str
    metadata: bytes


class ClassicMemberMetadata(Struct, frozen=True, gc=False):
    """Of a member of a KIP-848 group that speaks the classic protocol."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


class ConsumerGroupMemberMetadataValue(Struct, frozen=True, gc=False):
    """What a member has said of itself."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic_member_metadata: ClassicMemberMetadata | None = None


Assignment = Mapping[UUID, tuple[int, ...]]
"""Partitions by topic id, in order; a topic without partitions does not stand in it."""

AssignmentEpochs = Mapping[UUID, tuple[int, ...]]
"""By topic id, and in the order of its partitions: since which epoch the member has each (Kafka 4.3, a tagged field).
A topic of which that is not known does not stand in it."""

_UNKNOWN_EPOCHS: AssignmentEpochs = {}


class ConsumerGroupTargetAssignmentMetadataKey(Struct, frozen=True, gc=False):
    """Type 6."""

    group_id: str


class ConsumerGroupTargetAssignmentMetadataValue(Struct, frozen=True, gc=False):
    """For which group epoch the target assignment was computed."""

    assignment_epoch: int
    assignment_timestamp_ms: int = 0
    """When it was computed, from Apache Kafka 4.3 on (a tagged field); 0 where that is not known."""


class ConsumerGroupTargetAssignmentMemberKey(Struct, frozen=True, gc=False):
    """Type 7."""

    group_id: str
    member_id: str


class ConsumerGroupTargetAssignmentMemberValue(Struct, frozen=True, gc=False):
    """What a member is to have."""

    topic_partitions: Assignment


class ConsumerGroupCurrentMemberAssignmentKey(Struct, frozen=True, gc=False):
    """Type 8."""

    group_id: str
    member_id: str


class ConsumerGroupCurrentMemberAssignmentValue(Struct, frozen=True, gc=False):
    """What a member has, and how far it is on its way to what it is to have."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    """STABLE 0, UNREVOKED_PARTITIONS 1, UNRELEASED_PARTITIONS 2."""
    assigned_partitions: Assignment
    partitions_pending_revocation: Assignment
    assigned_epochs: AssignmentEpochs = msgspec.field(default_factory=lambda: _UNKNOWN_EPOCHS)
    pending_revocation_epochs: AssignmentEpochs = msgspec.field(default_factory=lambda: _UNKNOWN_EPOCHS)


class ConsumerGroupRegularExpressionKey(Struct, frozen=True, gc=False):
    """Type 16."""

    group_id: str
    regular_expression: str


class ConsumerGroupRegularExpressionValue(Struct, frozen=True, gc=False):
    """The topics that a regular expression has been found to match."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


class PushMemberKey(Struct, frozen=True, gc=False):
    """Type 30001, which is ours: a consumer of the push protocol (decision 35). Other coordinators leave it alone."""

    group_id: str
    consumer_id: str


class PushMemberValue(Struct, frozen=True, gc=False):
    """What a consumer has registered with. What it owns is not written: a coordinator that takes over assigns anew."""

    topic_count: str
    auto_commit: bool
    auto_offset_reset: str
    session_timeout_ms: int
    client_host: str


Key = (
    OffsetCommitKey
    | GroupMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
    | PushMemberKey
)
Value = (
    OffsetCommitValue
    | GroupMetadataValue
    | ConsumerGroupMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
    | PushMemberValue
)


class GroupRecord(NamedTuple):
    """A value of the key's kind, or None for a tombstone."""

    key: Key
    value: Value | None
