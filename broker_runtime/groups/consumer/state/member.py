"""A member of a KIP-848 group according to its records: its subscription and its current assignment. Pure."""

from collections.abc import Mapping
from enum import IntEnum
from functools import partial
from typing import Self
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from broker_runtime.groups.classic.member import size_of
from broker_runtime.groups.members_room import MEMBER_BYTES, TOPIC_BYTES
from broker_runtime.groups.records import (
    Assignment,
    AssignmentEpochs,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)
from broker_runtime.slicing.steps import Steps, chosen, listed

LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""The member epoch of a static member that left for a while: it keeps its partitions if it returns in its session."""
NOTHING: Assignment = {}
_TOPICS_AT_ONCE_MAX = 256
"""A decision that reads a member's partitions of more topics than these is made in steps."""
TOPICS_OF_A_STEP = 64
"""Topics whose partitions are read, taken or released in one step."""
_PARTITIONS_AT_ONCE_MAX = 4_096
_Epochs = tuple[int, ...]


class MemberState(IntEnum):
    """The progress of a member towards the target assignment.

    The values are those of field State in Kafka's record ConsumerGroupCurrentMemberAssignmentValue.
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member keeps its epoch until it has given up all partitions that it must revoke."""
    UNRELEASED_PARTITIONS = 2
    """The member is in the epoch of the target, and waits for partitions that other members still own."""


NEW_METADATA = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    subscribed_topic_names=(),
    subscribed_topic_regex=None,
    rebalance_timeout_ms=-1,
    server_assignor=None,
)
NEW_CURRENT = ConsumerGroupCurrentMemberAssignmentValue(0, -1, MemberState.STABLE, NOTHING, NOTHING)


class ConsumerMember(Struct, frozen=True, gc=False):
    """A member of a KIP-848 group. Immutable: a change creates another object and a record of it."""

    member_id: str
    metadata: ConsumerGroupMemberMetadataValue = NEW_METADATA
    current: ConsumerGroupCurrentMemberAssignmentValue = NEW_CURRENT

    @property
    def epoch(self) -> int:
        return self.current.member_epoch

    @property
    def speaks_classic(self) -> bool:
        return self.metadata.classic_member_metadata is not None

    @property
    def regex(self) -> str | None:
        """Return the subscribed regular expression, or None. Records store None as an empty string."""
        return self.metadata.subscribed_topic_regex or None

    @property
    def size(self) -> int:
        """Return the number of bytes of `members_room` that the member takes."""
        metadata = self.metadata
        told = size_of(metadata.classic_member_metadata.supported_protocols) if metadata.classic_member_metadata else 0
        regex = len(metadata.subscribed_topic_regex or "")
        return MEMBER_BYTES + TOPIC_BYTES * len(metadata.subscribed_topic_names) + regex + told

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.current.state == MemberState.STABLE and self.current.member_epoch == target_epoch

    def moved(self, state: MemberState, epoch: int, assigned: Assignment, pending: Assignment = NOTHING) -> Steps[Self]:
        """Return the member with another current assignment. Its old epoch becomes the previous epoch.

        A partition that the member had before keeps its epoch. Other partitions get the new epoch.
        """
        before = self.current
        had = partial(_with_epochs, before.assigned_partitions, before.assigned_epochs, self.epoch)
        given_up = partial(
            _with_epochs, before.partitions_pending_revocation, before.pending_revocation_epochs, self.epoch
        )
        kept = yield from listed((topic, _epochs(own, epoch, had(topic))) for topic, own in assigned.items())
        left = yield from listed(
            (topic, _epochs(own, epoch, had(topic), given_up(topic))) for topic, own in pending.items()
        )
        current = ConsumerGroupCurrentMemberAssignmentValue(
            epoch, self.epoch, state, assigned, pending, dict(kept), dict(left)
        )
        return type(self)(self.member_id, self.metadata, current)

    def away(self) -> Self:
        """Return the static member with the epoch of a temporary leave (-2).

        The member keeps its assigned partitions. Their assignment epochs become 0.
        """
        current = replace(
            self.current,
            member_epoch=STATIC_LEAVE_EPOCH,
            assigned_epochs=same_epochs(self.current.assigned_partitions, 0),
            partitions_pending_revocation=NOTHING,
            pending_revocation_epochs={},
        )
        return replace(self, current=current)

    def held_since(self, topic: UUID) -> Mapping[int, int]:
        """Return the epoch since which the member has each partition of the topic.

        The result includes partitions that the member has not given up yet (KIP-1251).
        """
        current = self.current
        given_up = _with_epochs(
            current.partitions_pending_revocation, current.pending_revocation_epochs, self.epoch, topic
        )
        assigned = _with_epochs(current.assigned_partitions, current.assigned_epochs, self.epoch, topic)
        return dict(zip(*given_up, strict=True)) | dict(zip(*assigned, strict=True))

    def replaced_by(self, member_id: str) -> Self:
        """Return the static member under another id, in epoch 0 and with the same partitions."""
        current = replace(self.current, member_epoch=0, previous_member_epoch=0)
        return replace(self, member_id=member_id, current=current)

    def owns_only_assigned(self, owned: Assignment | None) -> Steps[bool]:
        """Return whether all partitions that the member reports as owned are assigned to it.

        False if the member has not reported any (None).
        """
        if owned is None:
            return False
        assigned = self.current.assigned_partitions

        def is_more(item: tuple[UUID, tuple[int, ...]]) -> bool:
            topic, partitions = item
            return not set(partitions) <= set(assigned.get(topic, ()))

        return not (yield from chosen(owned.items(), is_more))

    def holds_many(self) -> bool:
        """Return whether the member has so many partitions that a decision that reads all of them is made in steps."""
        return are_many(self.current.assigned_partitions) or are_many(self.current.partitions_pending_revocation)


def are_many(assignment: Assignment) -> bool:
    """Return whether the assignment has so many partitions that reading it takes long."""
    return len(assignment) > _TOPICS_AT_ONCE_MAX or sum(map(len, assignment.values())) > _PARTITIONS_AT_ONCE_MAX


def classic_of(member: ConsumerMember) -> ClassicMemberMetadata:
    """Return the classic protocol's data of a KIP-848 member that uses the classic protocol."""
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    return classic


def same_epochs(assignment: Assignment, epoch: int) -> AssignmentEpochs:
    return {topic: (epoch,) * len(partitions) for topic, partitions in assignment.items()}


def _with_epochs(
    assignment: Assignment, epochs: AssignmentEpochs, member_epoch: int, topic: UUID
) -> tuple[tuple[int, ...], _Epochs]:
    """Return the partitions of a topic and the epoch since which the member has each.

    Records of brokers before 4.3 do not have these epochs: then it is the member's own epoch.
    """
    partitions, told = assignment.get(topic, ()), epochs.get(topic, ())
    return partitions, told if len(told) == len(partitions) else (max(member_epoch, 0),) * len(partitions)


def _epochs(partitions: tuple[int, ...], epoch: int, *had: tuple[tuple[int, ...], _Epochs]) -> _Epochs:
    """Return the epoch since which the member has each partition: `epoch` for those that are not in `had`.

    A member may have thousands of partitions: if it keeps all of them or had none, there is no lookup for each. No
    partition occurs twice in `had`.
    """
    known: dict[int, int] = {}
    for before, since in had:
        if before == partitions:
            return since
        known |= zip(before, since, strict=True)
    return tuple([known.get(partition, epoch) for partition in partitions]) if known else (epoch,) * len(partitions)
