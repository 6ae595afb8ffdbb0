"""A member of a KIP-848 group as its records say it is: what it wants, and what it has. Pure."""

from collections.abc import Mapping
from enum import IntEnum
from functools import partial
from typing import Self
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from broker_runtime.groups.records import (
    Assignment,
    AssignmentEpochs,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)
from broker_runtime.steps import Steps, chosen, listed

LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""A static member that will be back within its session: its partitions stay its own."""
NOTHING: Assignment = {}
TOPICS_AT_ONCE_MAX = 256
"""A decision that reads a member's partitions of more topics than these is made in steps."""
TOPICS_OF_A_STEP = 64
"""Topics whose partitions are read, taken or released in one step."""
_PARTITIONS_AT_ONCE_MAX = 4_096
_Epochs = tuple[int, ...]


class MemberState(IntEnum):
    """How far a member is on its way to the target assignment, in the numbers of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It keeps its epoch until it owns nothing more of what it has to give up."""
    UNRELEASED_PARTITIONS = 2
    """It is in the epoch of the target, and waits for partitions that others still own."""


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
    """One member. Immutable: whoever changes it makes another, and a record of it."""

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
        """None where it subscribes to none; an empty text in a record says the same."""
        return self.metadata.subscribed_topic_regex or None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.current.state == MemberState.STABLE and self.current.member_epoch == target_epoch

    def moved(self, state: MemberState, epoch: int, assigned: Assignment, pending: Assignment = NOTHING) -> Steps[Self]:
        """The member with another current assignment. The epoch that it leaves becomes its previous epoch.

        A partition that the member had before keeps its epoch. Other partitions get the new one.
        """
        before = self.current
        had = partial(_told, before.assigned_partitions, before.assigned_epochs, self.epoch)
        given_up = partial(_told, before.partitions_pending_revocation, before.pending_revocation_epochs, self.epoch)
        kept = yield from listed((topic, _epochs(own, epoch, had(topic))) for topic, own in assigned.items())
        left = yield from listed(
            (topic, _epochs(own, epoch, had(topic), given_up(topic))) for topic, own in pending.items()
        )
        current = ConsumerGroupCurrentMemberAssignmentValue(
            epoch, self.epoch, state, assigned, pending, dict(kept), dict(left)
        )
        return type(self)(self.member_id, self.metadata, current)

    def away(self) -> Self:
        """A static member that will be back keeps what it has, and has it since no epoch in particular."""
        current = replace(
            self.current,
            member_epoch=STATIC_LEAVE_EPOCH,
            assigned_epochs=same_epochs(self.current.assigned_partitions, 0),
            partitions_pending_revocation=NOTHING,
            pending_revocation_epochs={},
        )
        return replace(self, current=current)

    def held_since(self, topic: UUID) -> Mapping[int, int]:
        """Since which epoch it has each partition of the topic, also what it has not given up yet (KIP-1251)."""
        current = self.current
        given_up = _told(current.partitions_pending_revocation, current.pending_revocation_epochs, self.epoch, topic)
        assigned = _told(current.assigned_partitions, current.assigned_epochs, self.epoch, topic)
        return dict(zip(*given_up, strict=True)) | dict(zip(*assigned, strict=True))

    def replaced_by(self, member_id: str) -> Self:
        """The same static member under another id: it begins again and keeps its partitions."""
        current = replace(self.current, member_epoch=0, previous_member_epoch=0)
        return replace(self, member_id=member_id, current=current)

    def owns_only_assigned(self, owned: Assignment | None) -> Steps[bool]:
        """Whether all that it says it owns is assigned to it. None: it has not said."""
        if owned is None:
            return False
        assigned = self.current.assigned_partitions

        def is_more(item: tuple[UUID, tuple[int, ...]]) -> bool:
            topic, partitions = item
            return not set(partitions) <= set(assigned.get(topic, ()))

        return not (yield from chosen(owned.items(), is_more))

    def holds_many(self) -> bool:
        """Whether a decision that reads all of its partitions is made in steps."""
        return are_many(self.current.assigned_partitions) or are_many(self.current.partitions_pending_revocation)


def are_many(assignment: Assignment) -> bool:
    """Whether it takes long to read all of it."""
    return len(assignment) > TOPICS_AT_ONCE_MAX or sum(map(len, assignment.values())) > _PARTITIONS_AT_ONCE_MAX


def classic_of(member: ConsumerMember) -> ClassicMemberMetadata:
    """Of one that speaks the classic protocol."""
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    return classic


def same_epochs(assignment: Assignment, epoch: int) -> AssignmentEpochs:
    return {topic: (epoch,) * len(partitions) for topic, partitions in assignment.items()}


def _told(
    assignment: Assignment, epochs: AssignmentEpochs, member_epoch: int, topic: UUID
) -> tuple[tuple[int, ...], _Epochs]:
    """Partitions of a topic, and since when each. Where a record does not say it, as those of brokers before 4.3, it is
    the member's own epoch."""
    partitions, told = assignment.get(topic, ()), epochs.get(topic, ())
    return partitions, told if len(told) == len(partitions) else (max(member_epoch, 0),) * len(partitions)


def _epochs(partitions: tuple[int, ...], epoch: int, *had: tuple[tuple[int, ...], _Epochs]) -> _Epochs:
    """A member may have thousands of partitions: nothing is looked up for each where it keeps all of them or had none.
    Of what it `had` nothing stands there twice."""
    known: dict[int, int] = {}
    for before, since in had:
        if before == partitions:
            return since
        known |= zip(before, since, strict=True)
    return tuple([known.get(partition, epoch) for partition in partitions]) if known else (epoch,) * len(partitions)
