"""ConsumerGroupHeartbeat of KIP-848, decided. Pure.

A heartbeat says what a member wants and owns; the answer says what it is to own. In three steps: the member is written
down where it is new or another one, and the group's epoch goes up with what it asks for; a target assignment is
computed where the epoch is ahead of the last one; and the member takes the next step towards its target. The heartbeat
of a member that has nothing to say, in a group that waits for nobody, costs a look and a timer.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.consumer.fencing import arm_rebalance, arm_session, disarm_rebalance, find_consumer_group
from broker_runtime.groups.consumer.group import ConsumerGroup
from broker_runtime.groups.consumer.joining import speaker_of
from broker_runtime.groups.consumer.leaving import leave
from broker_runtime.groups.consumer.member import ConsumerMember, MemberState
from broker_runtime.groups.consumer.reconciliation import Goal, reconcile
from broker_runtime.groups.consumer.regexes import RegexChange, change_regex, refresh, refresh_is_due
from broker_runtime.groups.consumer.target import MemberChange, Target, target_for
from broker_runtime.groups.consumer.topics import hash_of, known_topics
from broker_runtime.groups.consumer.validity import HeartbeatRequest, check_request
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.records import (
    Assignment,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupRecord,
)
from broker_runtime.groups.state import GroupsState

_FIRST_EPOCH = 2
"""Apache Kafka's: there is one before it for members to be in while the first assignment is computed."""


class HeartbeatAnswer(NamedTuple):
    """What a member is told."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
    """None: it is what it was."""


def heartbeat(
    state: GroupsState, environment: GroupEnvironment, request: HeartbeatRequest
) -> tuple[Sequence[GroupRecord], HeartbeatAnswer]:
    """Raises KafkaError."""
    group = state.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup) and request.member_epoch > 0 and request.changes_nothing:
        member = group.members.get(request.member_id)
        if member is not None and _is_settled(group, member, request, environment):
            arm_session(request.group_id, member, environment)
            return (), _answer(member, environment)
    check_request(request, environment.config.group_consumer_assignors)
    if request.member_epoch < 0:
        member_id, epoch = request.member_id, request.member_epoch
        return leave(state, environment, request), HeartbeatAnswer(member_id, epoch)
    records: list[GroupRecord] = []
    found = _joined_group(state, request.group_id, records) if request.is_join else None
    return _decide(found or find_consumer_group(state, request.group_id), environment, request, records)


def _is_settled(
    group: ConsumerGroup, member: ConsumerMember, request: HeartbeatRequest, environment: GroupEnvironment
) -> bool:
    """Whether nothing is to be done for the member but to hear that it is there."""
    metadata = member.metadata
    return (
        member.epoch == request.member_epoch == group.assignment_epoch == group.epoch
        and member.current.state == MemberState.STABLE
        and not group.metadata_stale
        and metadata.instance_id == request.instance_id
        and metadata.client_id == request.client_id
        and metadata.client_host == request.client_host
        and not (group.subscriptions.regexes and refresh_is_due(group, None, environment))
    )


def _joined_group(state: GroupsState, group_id: str, records: list[GroupRecord]) -> ConsumerGroup:
    """The group that a member joins; an empty one of the classic protocol gives way. Raises KafkaError."""
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group is not None:
        if not group.is_empty:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Cannot upgrade classic group {group_id} to consumer group because online upgrade is disabled.",
            )
        records += group.tombstones()
    return ConsumerGroup(group_id)


def _decide(
    group: ConsumerGroup, environment: GroupEnvironment, request: HeartbeatRequest, records: list[GroupRecord]
) -> tuple[Sequence[GroupRecord], HeartbeatAnswer]:
    member_id = request.member_id or environment.new_id()
    speaker = speaker_of(group, request, member_id, environment.config.group_consumer_max_size, records)
    member = _updated(speaker.member, request)
    if member != speaker.member:
        records.append(GroupRecord(ConsumerGroupMemberMetadataKey(group.group_id, member_id), member.metadata))
    change = MemberChange(speaker.registered, member, speaker.replaced_id)
    regex_change = change_regex(group, change, records)
    if refresh_is_due(group, change, environment):
        refresh(group, change, environment)
    names_changed = member.metadata.subscribed_topic_names != speaker.member.metadata.subscribed_topic_names
    bump = group.epoch == 0 or names_changed or regex_change is RegexChange.RESOLVED
    epoch = _group_epoch(group, environment, change, bump, records)
    target = target_for(group, epoch, change, environment, records)
    subscription_changed = names_changed or regex_change is not RegexChange.NONE
    moved = _reconciled(group, member, target, environment, request, subscription_changed)
    if moved is not member:
        records.append(GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group.group_id, member_id), moved.current))
        if moved.current.state == MemberState.UNREVOKED_PARTITIONS:
            arm_rebalance(group.group_id, moved, environment)
        else:
            disarm_rebalance(group.group_id, member_id, environment)
    arm_session(group.group_id, moved, environment)
    assigned = moved.current.assigned_partitions
    says = request.is_full or assigned != speaker.member.current.assigned_partitions
    return records, _answer(moved, environment, assigned if says else None)


def _updated(member: ConsumerMember, request: HeartbeatRequest) -> ConsumerMember:
    """With what the request says of the member."""
    known = member.metadata
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    metadata = replace(
        known,
        instance_id=request.instance_id if request.instance_id is not None else known.instance_id,
        rack_id=request.rack_id if request.rack_id is not None else known.rack_id,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if request.rebalance_timeout_ms != -1 else known.rebalance_timeout_ms
        ),
        server_assignor=request.server_assignor if request.server_assignor is not None else known.server_assignor,
        subscribed_topic_names=tuple(sorted(set(names))) if names is not None else known.subscribed_topic_names,
        subscribed_topic_regex=regex if regex is not None else known.subscribed_topic_regex,
        client_id=request.client_id,
        client_host=request.client_host,
        classic_member_metadata=None,
    )
    return member if metadata == known else replace(member, metadata=metadata)


def _group_epoch(
    group: ConsumerGroup,
    environment: GroupEnvironment,
    change: MemberChange,
    bump: bool,
    records: list[GroupRecord],
) -> int:
    """It goes up where the member wants it, or topics are not what they were."""
    if not bump and not group.metadata_stale:
        return group.epoch
    metadata_hash = _hash_after(group, environment, change)
    group.metadata_stale = False
    if not bump and metadata_hash == group.metadata_hash:
        return group.epoch
    value = ConsumerGroupMetadataValue(group.epoch + 1 if group.epoch else _FIRST_EPOCH, metadata_hash)
    records.append(GroupRecord(ConsumerGroupMetadataKey(group.group_id), value))
    return value.epoch


def _hash_after(group: ConsumerGroup, environment: GroupEnvironment, change: MemberChange) -> int:
    """Of all topics that are subscribed to once the member is what it is to be."""
    subscriptions, before, after = group.subscriptions, change.before, change.after
    gone = [] if before is None else [before.metadata.subscribed_topic_names]
    come = [] if after is None else [after.metadata.subscribed_topic_names]
    if before is not None and before.regex is not None and (after is None or after.regex != before.regex):
        resolved = subscriptions.resolved.get(before.regex)
        if resolved is not None and subscriptions.regexes[before.regex] == 1:
            gone.append(resolved.topics)
    names = subscriptions.topics_after(gone, come)
    if names is None:
        if not group.metadata_stale:
            return group.metadata_hash
        names = frozenset(subscriptions.topics)
    return hash_of(known_topics(names, environment.image, group.topic_facts))


def _reconciled(
    group: ConsumerGroup,
    member: ConsumerMember,
    target: Target,
    environment: GroupEnvironment,
    request: HeartbeatRequest,
    subscription_changed: bool,
) -> ConsumerMember:
    if not subscription_changed and member.is_reconciled_to(target.epoch):
        return member
    names, topics = group.subscriptions.topics_of(member), environment.image.topics

    def is_subscribed(topic_id: UUID) -> bool:
        topic = topics.by_id(topic_id)
        return topic is not None and topic.name in names

    def is_free(topic_id: UUID, partition: int) -> bool:
        return group.owners.of(topic_id, partition) is None

    goal = Goal(target.epoch, target.of_member, is_subscribed, is_free)
    return reconcile(member, goal, request.owned, subscription_changed)


def _answer(
    member: ConsumerMember, environment: GroupEnvironment, assignment: Assignment | None = None
) -> HeartbeatAnswer:
    interval_ms = environment.config.group_consumer_heartbeat_interval_ms
    return HeartbeatAnswer(member.member_id, member.epoch, interval_ms, assignment)
