"""The keys and values of the records in a partition of __consumer_offsets. Pure; `record_codec` has their bytes.

The names are those of Apache Kafka's record schemas. A value of None is a tombstone: the object that the key names is
gone. Objects that a group has by the thousand contain no reference cycles, and the garbage collector does not track
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct


class OffsetCommitKey(Struct, frozen=True, gc=False):
    """Type 1. Type 0, which older brokers wrote, is read as type 1."""

    group_id: str
    topic: str
    partition: int


class OffsetCommitValue(Struct, frozen=True, gc=False):
    """The offset that a group has committed for a partition."""

    offset: int
    leader_epoch: int
    """-1 if the client did not send one."""
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """Set only if a client of an old version asked for a retention of its own."""
    topic_id: UUID | None = None

    def is_of(self, topic_id: UUID) -> bool:
        """Whether the offset was committed for this topic, and not for an earlier one with the same name.

        Older clients and brokers store no topic id: then it counts as committed for this topic.
        """
        return self.topic_id in (None, topic_id)


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    """Type 2: a group of the classic protocol."""

    group_id: str


class ClassicMember(Struct, frozen=True, gc=False):
    """A member as of the end of its last rebalance."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the protocol of the group."""
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadataValue:
    """A group of the classic protocol as of the end of its last rebalance."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    """-1 if it is not known."""
    members: tuple[ClassicMember, ...]
    packed_members: bytes | None = field(default=None, compare=False, repr=False)
    """The encoded members, if they exist already: encoding thousands at once would block the event loop too long."""


class ConsumerGroupMetadataKey(Struct, frozen=True, gc=False):
    """Type 3: a group of KIP-848."""

    group_id: str


class ConsumerGroupMetadataValue(Struct, frozen=True, gc=False):
    """The group epoch, and a hash of the topics that the group read at that epoch."""

    epoch: int
    metadata_hash: int = 0


class ConsumerGroupPartitionMetadataKey(Struct, frozen=True, gc=False):
    """Type 4, which brokers before 4.1 wrote. It is read and ignored."""

    group_id: str


class ConsumerGroupMemberMetadataKey(Struct, frozen=True, gc=False):
    """Type 5: the subscription and the properties of a member."""

    group_id: str
    member_id: str


class ClassicProtocol(NamedTuple):
    """A protocol that a member supports."""

    name: str
    metadata: bytes


class ClassicMemberMetadata(Struct, frozen=True, gc=False):
    """The classic protocol's data of a member of a KIP-848 group that speaks that protocol."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


class ConsumerGroupMemberMetadataValue(Struct, frozen=True, gc=False):
    """The subscription and the properties that a member has sent."""

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
"""Partitions by topic id, in ascending order; topics without partitions are left out."""

AssignmentEpochs = Mapping[UUID, tuple[int, ...]]
"""The epochs since which a member has its partitions (Kafka 4.3, a tagged field), by topic id and in the order of the
partitions. Topics whose epochs are unknown are left out."""

_UNKNOWN_EPOCHS: AssignmentEpochs = {}


class ConsumerGroupTargetAssignmentMetadataKey(Struct, frozen=True, gc=False):
    """Type 6: the epoch of the target assignment."""

    group_id: str


class ConsumerGroupTargetAssignmentMetadataValue(Struct, frozen=True, gc=False):
    """The group epoch that the target assignment was computed for."""

    assignment_epoch: int
    assignment_timestamp_ms: int = 0
    """Time of the computation, since Apache Kafka 4.3 (a tagged field); 0 if it is not known."""


class ConsumerGroupTargetAssignmentMemberKey(Struct, frozen=True, gc=False):
    """Type 7: the target assignment of a member."""

    group_id: str
    member_id: str


class ConsumerGroupTargetAssignmentMemberValue(Struct, frozen=True, gc=False):
    """The target assignment of a member."""

    topic_partitions: Assignment


class ConsumerGroupCurrentMemberAssignmentKey(Struct, frozen=True, gc=False):
    """Type 8: the current assignment of a member."""

    group_id: str
    member_id: str


class ConsumerGroupCurrentMemberAssignmentValue(Struct, frozen=True, gc=False):
    """The current assignment of a member, and its progress towards the target assignment."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    """`consumer.state.member.MemberState`: STABLE 0, UNREVOKED_PARTITIONS 1, UNRELEASED_PARTITIONS 2."""
    assigned_partitions: Assignment
    partitions_pending_revocation: Assignment
    assigned_epochs: AssignmentEpochs = msgspec.field(default_factory=lambda: _UNKNOWN_EPOCHS)
    pending_revocation_epochs: AssignmentEpochs = msgspec.field(default_factory=lambda: _UNKNOWN_EPOCHS)


class ConsumerGroupRegularExpressionKey(Struct, frozen=True, gc=False):
    """Type 16: a regular expression that members subscribe to."""

    group_id: str
    regular_expression: str


class ConsumerGroupRegularExpressionValue(Struct, frozen=True, gc=False):
    """The topics that a regular expression matched when it was last evaluated."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


class PushMemberKey(Struct, frozen=True, gc=False):
    """Type 30001, Sluicegate's own: a consumer of the push protocol (decision 35). Other coordinators ignore it."""

    group_id: str
    consumer_id: str


class PushMemberValue(Struct, frozen=True, gc=False):
    """The registration of a consumer.

    The partitions that it owns are not recorded: a coordinator that takes over assigns them again.
    """

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
    """A record: a value of the key's type, or None for a tombstone."""

    key: Key
    value: Value | None
