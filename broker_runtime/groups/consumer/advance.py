"""Advances a member that has reported its subscription and its owned partitions, in either protocol. Pure.

The changed member is recorded, and the group's epoch goes up if the subscription requires it. A target assignment is
computed if the epoch is ahead of the last one. Then the member takes its next step towards its target.
"""

from functools import partial
from uuid import UUID

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.consumer.fencing import arm_rebalance, disarm_rebalance
from broker_runtime.groups.consumer.joining import Speaker
from broker_runtime.groups.consumer.reconciliation import Goal, reconcile
from broker_runtime.groups.consumer.regexes import RegexChange, change_regex, refresh, refresh_is_due
from broker_runtime.groups.consumer.state.group import ConsumerGroup
from broker_runtime.groups.consumer.state.member import ConsumerMember, MemberState
from broker_runtime.groups.consumer.state.topics import hash_of, known_topics
from broker_runtime.groups.consumer.target import MemberChange, Target, target_for
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.records import (
    Assignment,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupRecord,
)
from broker_runtime.security.acls.topic_filter import TopicFilter
from broker_runtime.slicing.steps import Steps

_FIRST_EPOCH = 2
"""The first group epoch, as in Apache Kafka. Members are in the epoch before while the first assignment is computed."""


def advance(
    group: ConsumerGroup,
    environment: GroupEnvironment,
    speaker: Speaker,
    member: ConsumerMember,
    owned: Assignment | None,
    records: list[GroupRecord],
    topic_filter: TopicFilter | None = None,
) -> Steps[ConsumerMember]:
    """Advance the member and return its new version. `member` has the properties of the request.

    `topic_filter` hides topics from the expressions of the group. A member of the classic protocol has no filter: it
    leaves the group's expressions to other members.

    Raises KafkaError (INVALID_REGULAR_EXPRESSION, INVALID_REQUEST).
    """
    group_id, member_id = group.group_id, member.member_id
    if member != speaker.member:
        records.append(GroupRecord(ConsumerGroupMemberMetadataKey(group_id, member_id), member.metadata))
    change = MemberChange(speaker.registered, member, speaker.replaced_id)
    regex_change = change_regex(group, change, records)
    if not member.speaks_classic and refresh_is_due(group, change, environment):
        refresh(group, change, environment, topic_filter)
    names_changed = member.metadata.subscribed_topic_names != speaker.member.metadata.subscribed_topic_names
    bump = group.epoch == 0 or names_changed or regex_change is RegexChange.RESOLVED
    epoch = yield from _group_epoch(group, environment, change, bump, records)
    target = yield from target_for(group, epoch, change, environment, records)
    subscription_changed = names_changed or regex_change is not RegexChange.NONE
    moved = yield from _reconciled(group, member, target, environment, owned, subscription_changed)
    if moved is not member:
        records.append(GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), moved.current))
        if moved.current.state == MemberState.UNREVOKED_PARTITIONS and not moved.speaks_classic:
            environment.timers.once_taken(partial(arm_rebalance, group_id, moved, environment))
        else:
            environment.timers.once_taken(partial(disarm_rebalance, group_id, member_id, environment))
    return moved


def _group_epoch(
    group: ConsumerGroup,
    environment: GroupEnvironment,
    change: MemberChange,
    bump: bool,
    records: list[GroupRecord],
) -> Steps[int]:
    """Return the group's epoch. It goes up if the member requires it, or if topics have changed."""
    if not bump and not group.metadata_stale:
        return group.epoch
    metadata_hash = yield from _hash_after(group, environment, change)
    if metadata_hash == group.metadata_hash:
        # Otherwise a record has the new hash, and the log may refuse it: the next request computes the hash again.
        group.metadata_stale = False
        if not bump:
            return group.epoch
    value = ConsumerGroupMetadataValue(group.epoch + 1 if group.epoch else _FIRST_EPOCH, metadata_hash)
    records.append(GroupRecord(ConsumerGroupMetadataKey(group.group_id), value))
    return value.epoch


def _check_room(group: ConsumerGroup, topics: int, topics_max: int) -> None:
    """Raise KafkaError (INVALID_REQUEST) if the group would have too many topics.

    A group above the limit may still reduce its topics.
    """
    if topics > max(topics_max, len(group.subscriptions.topics)):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The members of group {group.group_id} would subscribe to {topics} topics together; "
            f"sluicegate.group.topics.max allows {topics_max}. Subscribe to fewer topics, or raise the limit.",
        )


def _hash_after(group: ConsumerGroup, environment: GroupEnvironment, change: MemberChange) -> Steps[int]:
    """Return the hash of all topics that are subscribed to after the change.

    Raises KafkaError (INVALID_REQUEST) if there are too many topics.
    """
    subscriptions, before, after = group.subscriptions, change.before, change.after
    gone = [] if before is None else [before.metadata.subscribed_topic_names]
    come = [] if after is None else [after.metadata.subscribed_topic_names]
    if before is not None and before.regex is not None and (after is None or after.regex != before.regex):
        resolved = subscriptions.resolved.get(before.regex)
        if resolved is not None and subscriptions.regexes[before.regex] == 1:
            gone.append(resolved.topics)
    names = yield from subscriptions.topics_after(gone, come)
    if names is not None:
        _check_room(group, len(names), environment.config.sluicegate_group_topics_max)
    elif not group.metadata_stale:
        return group.metadata_hash
    else:
        names = subscriptions.topics
    return hash_of((yield from known_topics(names, environment.image, group.topic_facts)))


def _reconciled(
    group: ConsumerGroup,
    member: ConsumerMember,
    target: Target,
    environment: GroupEnvironment,
    owned: Assignment | None,
    subscription_changed: bool,
) -> Steps[ConsumerMember]:
    if not subscription_changed and member.is_reconciled_to(target.epoch):
        return member
    names, topics = group.subscriptions.topics_of(member), environment.image.topics

    def is_subscribed(topic_id: UUID) -> bool:
        topic = topics.by_id(topic_id)
        return topic is not None and topic.name in names

    yield
    goal = Goal(target.epoch, target.of_member, is_subscribed, group.owners.free)
    return (yield from reconcile(member, goal, owned, subscription_changed))
