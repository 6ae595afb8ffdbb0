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
    """Key of record type 1: an offset commit. Type 0, which older brokers wrote, is read as type 1."""

    group_id: str
    topic: str
    partition: int


class OffsetCommitValue(Struct, frozen=True, gc=False):
    """The offset that a group has committed for a partition."""

    offset: int
    leader_epoch: int
    """The leader epoch of the commit; -1 if the client did not send one."""
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """Time when the offset expires, only if a client of an old version asked for a retention of its own."""
    topic_id: UUID | None = None

    def is_of(self, topic_id: UUID) -> bool:
        """Return whether the offset was committed for this topic, not for an earlier one with the same name.

        Older clients and brokers store no topic id: their offsets count as committed for this topic.
        """
        return self.topic_id in (None, topic_id)


class PendingOffsetValue(Struct, frozen=True, gc=False):
    """An offset that a producer commits in a transaction (KIP-98). It counts once the transaction is committed.

    The log stores it as an OffsetCommitValue in a transactional batch of the producer.
    """

    producer_id: int
    commit: OffsetCommitValue


class TransactionEndKey(Struct, frozen=True, gc=False):
    """Key of the marker that ends a producer's transaction in the partition.

    The log stores it as a control batch, which has no key of a record type.
    """

    producer_id: int


class TransactionEndValue(Struct, frozen=True, gc=False):
    """The end of the transaction: committed or aborted."""

    is_commit: bool


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    """Key of record type 2: a group of the classic protocol."""

    group_id: str


class ClassicMember(Struct, frozen=True, gc=False):
    """A member of a classic group at the end of its last rebalance."""

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
    """A group of the classic protocol at the end of its last rebalance."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    """Time of the last change of the state; -1 if the time is not known."""
    members: tuple[ClassicMember, ...]
    packed_members: bytes | None = field(default=None, compare=False, repr=False)
    """The encoded members, if they exist already.

    Encoding thousands at once would block the event loop too long.
    """


class ConsumerGroupMetadataKey(Struct, frozen=True, gc=False):
    """Key of record type 3: a group of KIP-848."""

    group_id: str


class ConsumerGroupMetadataValue(Struct, frozen=True, gc=False):
    """The group epoch, and a hash of the topics that the group read at that epoch."""

    epoch: int
    metadata_hash: int = 0


class ConsumerGroupPartitionMetadataKey(Struct, frozen=True, gc=False):
    """Key of record type 4, which brokers before 4.1 wrote. It is read and ignored."""

    group_id: str


class ConsumerGroupMemberMetadataKey(Struct, frozen=True, gc=False):
    """Key of record type 5: the subscription and the properties of a member."""

    group_id: str
    member_id: str


class ClassicProtocol(NamedTuple):
    """A protocol that a classic member supports, and the member's metadata for it."""

    name: str
    metadata: bytes


class ClassicMemberMetadata(Struct, frozen=True, gc=False):
    """The classic protocol's data of a KIP-848 group's member that uses the classic protocol."""

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
    """Key of record type 6: the epoch of the target assignment."""

    group_id: str


class ConsumerGroupTargetAssignmentMetadataValue(Struct, frozen=True, gc=False):
    """The group epoch for which the target assignment was computed."""

    assignment_epoch: int
    assignment_timestamp_ms: int = 0
    """Time of the computation, since Apache Kafka 4.3 (a tagged field); 0 if it is not known."""


class ConsumerGroupTargetAssignmentMemberKey(Struct, frozen=True, gc=False):
    """Key of record type 7: the target assignment of a member."""

    group_id: str
    member_id: str


class ConsumerGroupTargetAssignmentMemberValue(Struct, frozen=True, gc=False):
    """The target assignment of a member."""

    topic_partitions: Assignment


class ConsumerGroupCurrentMemberAssignmentKey(Struct, frozen=True, gc=False):
    """Key of record type 8: the current assignment of a member."""

    group_id: str
    member_id: str


class ConsumerGroupCurrentMemberAssignmentValue(Struct, frozen=True, gc=False):
    """The current assignment of a member, and its progress towards the target assignment."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    """The member's state, as in `consumer.state.member.MemberState`.

    STABLE is 0, UNREVOKED_PARTITIONS 1, UNRELEASED_PARTITIONS 2.
    """
    assigned_partitions: Assignment
    partitions_pending_revocation: Assignment
    assigned_epochs: AssignmentEpochs = msgspec.field(default_factory=lambda: _UNKNOWN_EPOCHS)
    pending_revocation_epochs: AssignmentEpochs = msgspec.field(default_factory=lambda: _UNKNOWN_EPOCHS)


class ConsumerGroupRegularExpressionKey(Struct, frozen=True, gc=False):
    """Key of record type 16: a regular expression that members subscribe to."""

    group_id: str
    regular_expression: str


class ConsumerGroupRegularExpressionValue(Struct, frozen=True, gc=False):
    """The topics that a regular expression matched when it was last evaluated."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


class PushMemberKey(Struct, frozen=True, gc=False):
    """Key of record type 30001, Sluicegate's own: a consumer of the push protocol (decision 35).

    Other coordinators ignore the record.
    """

    group_id: str
    consumer_id: str


class PushMemberValue(Struct, frozen=True, gc=False):
    """The registration of a push consumer.

    The consumer's partitions are not recorded: a coordinator that takes over assigns them again.
    """

    topic_count: str
    auto_commit: bool
    auto_offset_reset: str
    session_timeout_ms: int
    client_host: str


KeyOfGroup = (
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
"""The keys that name a group."""
Key = KeyOfGroup | TransactionEndKey
Value = (
    OffsetCommitValue
    | PendingOffsetValue
    | TransactionEndValue
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
    """A record of a coordinator: a value of the key's type, or None for a tombstone."""

    key: Key
    value: Value | None
