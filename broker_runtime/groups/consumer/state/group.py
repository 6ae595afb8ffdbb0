"""A KIP-848 group. Pure: all state except the attributes marked as soft comes from records, which `APPLIERS` apply."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.consumer.state.member import (
    NEW_CURRENT,
    NEW_METADATA,
    NOTHING,
    ConsumerMember,
)
from broker_runtime.groups.consumer.state.owners import PartitionOwners
from broker_runtime.groups.consumer.state.subscriptions import Subscriptions
from broker_runtime.groups.consumer.state.topics import TopicFacts
from broker_runtime.groups.group import CONSUMER, Committer, GroupType, OffsetRetention, Partitions
from broker_runtime.groups.records import (
    Assignment,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupRecord,
    Key,
)
from broker_runtime.groups.state import Applier, GroupsState
from broker_runtime.slicing.steps import drain

_EPOCH_COMMITS_SINCE = 9
"""First version of OffsetCommit with a member epoch."""


class ConsumerGroup:
    """A group of KIP-848: implements `groups.group.Group`.

    There are three epochs. `epoch` goes up with each change that requires another assignment. `assignment_epoch` is the
    group epoch that `target` was computed for. Each member has its own epoch, which follows when reconciliation allows
    it.
    """

    type = GroupType.CONSUMER
    protocol_type = CONSUMER

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        """Hash of the subscribed topics when the epoch last went up."""
        self.assignment_epoch = 0
        self.assignment_timestamp_ms = 0
        self.target: dict[str, Assignment] = {}
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids of static members by instance id."""
        self.owners = PartitionOwners()
        self.subscriptions = Subscriptions()
        # Soft, from here on.
        self.metadata_stale = True
        """Whether topics may have changed since the hash was computed; True after a load, because it is not known
        then."""
        self.regexes_stale = True
        """Whether topics may have been created since the expressions were last evaluated."""
        self.refused_regexes: frozenset[str] = frozenset()
        """Expressions that the last refresh refused: they are invalid here, or match too many topics.

        The broker has logged a warning for each.
        """
        self.resolving = False
        """Whether a thread is matching the expressions."""
        self.assigning = False
        """Whether a thread computes an assignment, or the result is being written; the record of its epoch comes
        last."""
        self.topic_facts: dict[str, TopicFacts] = {}
        self.partition_count = 0
        """Number of partitions of all topics at the last assignment."""

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        reconciled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if reconciled else "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def check_commit(self, committer: Committer, partitions: Partitions = (), *, in_transaction: bool = False) -> None:
        """Raise KafkaError if the client may not commit.

        A member that has missed its latest epoch may commit in an earlier one, for partitions that it has had since
        then (KIP-1251). Clients of transactions know no member epochs, so a wrong one is an ILLEGAL_GENERATION there.
        """
        if committer.generation_or_epoch < 0 and not self.members:
            return
        if in_transaction and committer.is_anonymous:
            return
        member = self.member(committer.member_id)
        if not (member.speaks_classic or in_transaction) and committer.api_version < _EPOCH_COMMITS_SINCE:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"members that use the consumer protocol need OffsetCommit version {_EPOCH_COMMITS_SINCE} or above",
            )
        try:
            _check_member(member, committer.generation_or_epoch, partitions)
        except KafkaError as error:
            if not in_transaction:
                raise
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message or "") from None

    def check_fetch(self, committer: Committer) -> None:
        if not committer.member_id and committer.generation_or_epoch < 0:
            return
        _check_epoch(self.member(committer.member_id), committer.generation_or_epoch)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions.topics

    def offset_retention(self) -> OffsetRetention | None:
        return OffsetRetention(base_ms=None, subscribed=self.subscriptions.topics.keys())

    def tombstones(self) -> Sequence[GroupRecord]:
        return list(self.ends())

    def ends(self) -> Iterator[GroupRecord]:
        """Yield the tombstones of the group one by one: a large group has thousands."""
        group_id = self.group_id
        for member_id in self.members:
            yield GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None)
        for member_id in self.target:
            yield GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None)
        yield GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id), None)
        for member_id in self.members:
            yield GroupRecord(ConsumerGroupMemberMetadataKey(group_id, member_id), None)
        for regex in self.subscriptions.resolved:
            yield GroupRecord(ConsumerGroupRegularExpressionKey(group_id, regex), None)
        yield GroupRecord(ConsumerGroupMetadataKey(group_id), None)

    def member(self, member_id: str) -> ConsumerMember:
        """Return the member of the group with this id. Raises KafkaError (UNKNOWN_MEMBER_ID)."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id!r} is not a member of group {self.group_id}"
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def put(self, member: ConsumerMember) -> None:
        """Add the member, or replace its earlier version."""
        before = self.members.get(member.member_id)
        if before is None or before.metadata is not member.metadata:
            self.subscriptions.change(before, member)
            self._forget_instance(before)
            if member.metadata.instance_id is not None:
                self.static_members[member.metadata.instance_id] = member.member_id
        if before is None or before.current is not member.current:
            if before is not None:
                self.owners.release(before)
            self.owners.take(member)
        self.members[member.member_id] = member

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self.subscriptions.change(member, None)
        self.owners.release(member)
        self._forget_instance(member)

    def _forget_instance(self, member: ConsumerMember | None) -> None:
        instance_id = None if member is None else member.metadata.instance_id
        if member is not None and instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]


def _check_member(member: ConsumerMember, epoch: int, partitions: Partitions) -> None:
    """Raise KafkaError unless the member is in this epoch, or has had all partitions since this earlier epoch."""
    if epoch >= member.epoch:
        _check_epoch(member, epoch)
        return
    since: dict[UUID, Mapping[int, int]] = {}
    for topic_id, partition in partitions:
        if topic_id is not None and topic_id not in since:
            since[topic_id] = member.held_since(topic_id)
        if topic_id is None or since[topic_id].get(partition, epoch + 1) > epoch:
            raise _stale(member, f"was not assigned partition {partition} of {topic_id} in epoch {epoch}")


def _check_epoch(member: ConsumerMember, epoch: int) -> None:
    if epoch == member.epoch:
        return
    raise _stale(member, f"is in epoch {member.epoch}, not {epoch}")


def _stale(member: ConsumerMember, why: str) -> KafkaError:
    code = ErrorCode.ILLEGAL_GENERATION if member.speaks_classic else ErrorCode.STALE_MEMBER_EPOCH
    return KafkaError(code, f"member {member.member_id!r} {why}")


def _found(state: GroupsState, group_id: str) -> ConsumerGroup | None:
    group = state.groups.get(group_id)
    return group if isinstance(group, ConsumerGroup) else None


def _made(state: GroupsState, group_id: str) -> ConsumerGroup:
    """Return the group, created if necessary.

    A group of another type without members only keeps offsets, and the new group takes them over. A push group may
    still have members. A coordinator that does not know the push protocol has ignored them, so they are not in the new
    group.
    """
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group is not None and not group.is_empty and group.type is not GroupType.PUSH:
        raise ValueError(
            f"a record of the consumer protocol belongs to group {group_id}, whose members use another protocol"
        )
    made = state.groups[group_id] = ConsumerGroup(group_id)
    return made


def _note(state: GroupsState, group: ConsumerGroup) -> None:
    """Note the counting that the record has left: it is done before the next decision."""
    for counts in (group.subscriptions, group.owners):
        if counts.are_behind:
            state.uncounted.append(counts.catch_up())


def _apply_group(state: GroupsState, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None) -> None:
    if value is not None:
        group = _made(state, key.group_id)
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    elif (found := _found(state, key.group_id)) is not None:
        del state.groups[key.group_id]
        # The group may know tens of thousands of topics.
        state.uncounted.append(drain(found.topic_facts))


def _apply_metadata(
    state: GroupsState, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    if value is not None:
        group = _made(state, key.group_id)
        known = group.members.get(key.member_id)
        current = NEW_CURRENT if known is None else known.current
        group.put(ConsumerMember(key.member_id, value, current))
        _note(state, group)
    elif (found := _found(state, key.group_id)) is not None:
        found.remove(key.member_id)
        _note(state, found)


def _apply_current(
    state: GroupsState,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    """Apply a current assignment. In a compacted log it may come before the member's metadata."""
    group = _found(state, key.group_id) if value is None else _made(state, key.group_id)
    known = None if group is None else group.members.get(key.member_id)
    if group is not None and (known is not None or value is not None):
        metadata = NEW_METADATA if known is None else known.metadata
        group.put(ConsumerMember(key.member_id, metadata, NEW_CURRENT if value is None else value))
        _note(state, group)


def _apply_target_epoch(
    state: GroupsState,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    if value is not None:
        group = _made(state, key.group_id)
        group.assignment_epoch, group.assignment_timestamp_ms = value.assignment_epoch, value.assignment_timestamp_ms
        group.assigning = False
    elif (found := _found(state, key.group_id)) is not None:
        found.assignment_epoch = found.assignment_timestamp_ms = 0


def _apply_target(
    state: GroupsState,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is not None:
        _made(state, key.group_id).target[key.member_id] = value.topic_partitions or NOTHING
    elif (found := _found(state, key.group_id)) is not None:
        found.target.pop(key.member_id, None)


def _apply_regex(
    state: GroupsState, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    group = _found(state, key.group_id) if value is None else _made(state, key.group_id)
    if group is not None:
        group.subscriptions.resolve(key.regular_expression, value)
        _note(state, group)


def _forget(state: GroupsState, key: ConsumerGroupPartitionMetadataKey, value: Any) -> None:
    """Ignore the partitions of topics that brokers before 4.1 wrote.

    The hash in the group's record has replaced them.
    """


APPLIERS: Mapping[type[Key], Applier] = {
    ConsumerGroupMetadataKey: _apply_group,
    ConsumerGroupPartitionMetadataKey: _forget,
    ConsumerGroupMemberMetadataKey: _apply_metadata,
    ConsumerGroupTargetAssignmentMetadataKey: _apply_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _apply_target,
    ConsumerGroupCurrentMemberAssignmentKey: _apply_current,
    ConsumerGroupRegularExpressionKey: _apply_regex,
}
