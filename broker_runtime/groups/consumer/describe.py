"""The description of a group for ConsumerGroupDescribe. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from broker_runtime.groups.consumer.fencing import find_consumer_group
from broker_runtime.groups.consumer.state.member import ConsumerMember
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.records import Assignment
from broker_runtime.groups.state import GroupsState


class DescribedGroup(NamedTuple):
    """A group after its last decision, for a description.

    The description does not change, so that it can be sent over many iterations of the event loop.
    """

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ConsumerMember, ...]
    target: Mapping[str, Assignment]
    """Target assignments by member id; members without one are left out."""


def describe(state: GroupsState, environment: GroupEnvironment, group_id: str) -> DescribedGroup:
    """Return the description of a KIP-848 group. Raises KafkaError (GROUP_ID_NOT_FOUND)."""
    group = find_consumer_group(state, group_id)
    assignor = group.subscriptions.preferred_assignor(None, None) or environment.config.group_consumer_assignors[0]
    members = tuple(group.members.values())
    return DescribedGroup(
        group_id, group.state_name, group.epoch, group.assignment_epoch, assignor, members, dict(group.target)
    )


def held(member: ConsumerMember) -> Assignment:
    """Return the partitions that the member owns, including those to be revoked that the member still has."""
    assigned, pending = member.current.assigned_partitions, member.current.partitions_pending_revocation
    if not pending:
        return assigned
    topics = {**assigned, **pending}
    return {topic: tuple(sorted((*assigned.get(topic, ()), *pending.get(topic, ())))) for topic in topics}
