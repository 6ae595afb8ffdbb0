"""Removes members that leave or whose time is up. Pure.

Their records are deleted, and the group needs another assignment.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.consumer.downgrading import downgrade_soon
from broker_runtime.groups.consumer.state.group import ConsumerGroup
from broker_runtime.groups.consumer.state.member import ConsumerMember, MemberState
from broker_runtime.groups.consumer.state.times import times_of
from broker_runtime.groups.consumer.state.topics import hash_of, known_topics
from broker_runtime.groups.consumer.target import assign_soon
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    GroupRecord,
)
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import Steps

log = logging.getLogger(__name__)

SESSION, REBALANCE, JOIN, SYNC = MEMBER_TIMERS = ("session", "rebalance", "join", "sync")
"""The kinds of timers of a member, at most one timer of each. Keys are (group id, kind, member id).

The module `ended` cancels these timers.
"""


def arm_session(group_id: str, member: ConsumerMember, environment: GroupEnvironment) -> None:
    """Set the timer that removes the member if it sends nothing for one session.

    A member of the classic protocol has its own session timeout.
    """
    classic = member.metadata.classic_member_metadata
    own_ms = None if classic is None else classic.session_timeout_ms
    timeout_ms = times_of(group_id, environment).session_timeout_ms if own_ms is None else own_ms
    environment.timers.schedule(
        (group_id, SESSION, member.member_id),
        timeout_ms / 1000,
        partial(_session_over, environment, group_id, member.member_id),
    )


def arm_rebalance(group_id: str, member: ConsumerMember, environment: GroupEnvironment) -> None:
    """Set the timer that removes the member if it has not revoked its partitions within its rebalance timeout."""
    environment.timers.schedule(
        (group_id, REBALANCE, member.member_id),
        member.metadata.rebalance_timeout_ms / 1000,
        partial(_rebalance_over, environment, group_id, member.member_id, member.epoch),
    )


def disarm_rebalance(group_id: str, member_id: str, environment: GroupEnvironment) -> None:
    environment.timers.cancel((group_id, REBALANCE, member_id))


def stop_waiting(group_id: str, member_id: str, environment: GroupEnvironment) -> None:
    """Cancel the timers of a member that has changed from the classic to the consumer protocol."""
    for what in (JOIN, SYNC):
        environment.timers.cancel((group_id, what, member_id))


def removal(group_id: str, member_id: str) -> list[GroupRecord]:
    """Return the tombstones that remove one member of a KIP-848 group."""
    return [
        GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        GroupRecord(ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    ]


def fence(
    group: ConsumerGroup, members: Sequence[ConsumerMember], environment: GroupEnvironment
) -> Steps[list[GroupRecord]]:
    """Return the records that remove the members once the log has taken them.

    The members' timers stay until then: if the log refuses the records, only the timers can remove the members later.
    """
    group_id, subscriptions = group.group_id, group.subscriptions
    records = [tombstone for member in members for tombstone in removal(group_id, member.member_id)]
    gone = [member.metadata.subscribed_topic_names for member in members]
    for regex, count in Counter(member.regex for member in members if member.regex is not None).items():
        if subscriptions.regexes[regex] == count:
            records.append(GroupRecord(ConsumerGroupRegularExpressionKey(group_id, regex), None))
            gone += [subscriptions.resolved[regex].topics] if regex in subscriptions.resolved else []
    names = yield from subscriptions.topics_after(gone, [])
    metadata_hash = group.metadata_hash
    if names is not None:
        metadata_hash = hash_of((yield from known_topics(names, environment.image, group.topic_facts)))
    bumped = ConsumerGroupMetadataValue(group.epoch + 1, metadata_hash)
    records.append(GroupRecord(ConsumerGroupMetadataKey(group_id), bumped))
    assign_soon(group, environment)
    new_speak = len(group.members) - subscriptions.classic_members
    new_gone = sum(not member.speaks_classic for member in members)
    if new_gone and new_gone == new_speak and len(members) < len(group.members):
        downgrade_soon(group_id, environment)
    return records


def find_consumer_group(state: GroupsState, group_id: str) -> ConsumerGroup:
    """Return the KIP-848 group with this id.

    Raises KafkaError (GROUP_ID_NOT_FOUND), also for a group of another type.
    """
    group = state.groups.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    return group


def _session_over(
    environment: GroupEnvironment, group_id: str, member_id: str, state: GroupsState
) -> Steps[tuple[list[GroupRecord], None]]:
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup) or member_id not in group.members:
        return [], None
    log.info("member %s of group %s is removed: its session has expired", member_id, group_id)
    return (yield from fence(group, [group.members[member_id]], environment)), None


def _rebalance_over(
    environment: GroupEnvironment, group_id: str, member_id: str, epoch: int, state: GroupsState
) -> Steps[tuple[list[GroupRecord], None]]:
    group = state.groups.get(group_id)
    member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
    if not isinstance(group, ConsumerGroup) or member is None:
        return [], None
    if member.epoch != epoch or member.current.state != MemberState.UNREVOKED_PARTITIONS:
        return [], None
    log.info(
        "member %s of group %s is removed: it did not revoke its partitions within its rebalance timeout",
        member_id,
        group_id,
    )
    return (yield from fence(group, [member], environment)), None
