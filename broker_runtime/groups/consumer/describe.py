"""What ConsumerGroupDescribe tells of a group. Pure."""

from typing import NamedTuple
from uuid import UUID

from broker_runtime.groups.consumer.fencing import find_consumer_group
from broker_runtime.groups.consumer.member import NOTHING, ConsumerMember
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.records import Assignment
from broker_runtime.groups.state import GroupsState


class TopicPartitions(NamedTuple):
    """Partitions of one topic that is there."""

    topic_id: UUID
    topic_name: str
    partitions: tuple[int, ...]


class DescribedMember(NamedTuple):
    """A member with what it has and what it is to have."""

    member: ConsumerMember
    assignment: tuple[TopicPartitions, ...]
    """What it owns, and has not given up yet; topics that are gone are left out."""
    target_assignment: tuple[TopicPartitions, ...]


class DescribedGroup(NamedTuple):
    """A group as it was decided last."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedMember, ...]


def describe(state: GroupsState, environment: GroupEnvironment, group_id: str) -> DescribedGroup:
    """Raises KafkaError (GROUP_ID_NOT_FOUND)."""
    group = find_consumer_group(state, group_id)
    members = tuple(
        DescribedMember(
            member,
            _named(_held(member), environment),
            _named(group.target.get(member.member_id, NOTHING), environment),
        )
        for member in group.members.values()
    )
    assignor = group.subscriptions.preferred_assignor(None, None) or environment.config.group_consumer_assignors[0]
    return DescribedGroup(group_id, group.state_name, group.epoch, group.assignment_epoch, assignor, members)


def _held(member: ConsumerMember) -> Assignment:
    assigned, pending = member.current.assigned_partitions, member.current.partitions_pending_revocation
    if not pending:
        return assigned
    topics = {**assigned, **pending}
    return {topic: tuple(sorted((*assigned.get(topic, ()), *pending.get(topic, ())))) for topic in topics}


def _named(assignment: Assignment, environment: GroupEnvironment) -> tuple[TopicPartitions, ...]:
    topics = environment.image.topics
    return tuple(
        TopicPartitions(topic_id, topic.name, partitions)
        for topic_id, partitions in assignment.items()
        if (topic := topics.by_id(topic_id)) is not None
    )
