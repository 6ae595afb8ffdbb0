"""Downgrades a group of KIP-848 whose members all speak the classic protocol to a group of that protocol. Pure.

It keeps the target assignment of its members, and then rebalances. Until then it has no leader, which tells the next
coordinator after a fail-over to start the rebalance. group.consumer.migration.policy decides whether groups are
downgraded.
"""

import logging
from collections.abc import Sequence
from functools import partial

from broker_runtime.config.keys.groups import MigrationPolicy
from broker_runtime.coordination.seam import AtomicBatch
from broker_runtime.groups.classic import rebalance
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.member import Member
from broker_runtime.groups.classic.portions import in_portions
from broker_runtime.groups.consumer.embedded import subscription_version, write_assignment
from broker_runtime.groups.consumer.state.group import ConsumerGroup
from broker_runtime.groups.consumer.state.member import NOTHING, ConsumerMember, classic_of
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.record_codec import write_member
from broker_runtime.groups.records import (
    Assignment,
    ClassicMember,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
)
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import Steps, each, listed

log = logging.getLogger(__name__)


def downgrade_soon(group_id: str, environment: GroupEnvironment) -> None:
    """Check in a decision of its own whether the group can be downgraded.

    Call it when the last member of the consumer protocol may have left and other members stay.
    """
    environment.timers.schedule((group_id, "downgrade"), 0, partial(_downgrade, environment, group_id))


def _downgrade(
    environment: GroupEnvironment, group_id: str, state: GroupsState
) -> Steps[tuple[list[GroupRecord], None]]:
    group, config = state.groups.get(group_id), environment.config
    if not isinstance(group, ConsumerGroup) or not group.members:
        return [], None
    fits = len(group.members) <= config.group_max_size and MigrationPolicy.of(config).downgrade
    if group.subscriptions.classic_members < len(group.members) or not fits:
        return [], None
    value = yield from _classic_value(group, environment)
    records = AtomicBatch((yield from listed(group.ends())))
    records.append(GroupRecord(GroupMetadataKey(group_id), value))
    environment.timers.schedule((group_id, "downgraded"), 0, partial(_begin, environment, group_id))
    log.info("group %s uses the classic protocol from now on", group_id)
    return records, None


def _begin(environment: GroupEnvironment, group_id: str, state: GroupsState) -> tuple[Sequence[GroupRecord], None]:
    """Start the rebalance of the downgraded group: all members have to join again."""
    group = state.groups.get(group_id)
    if not isinstance(group, ClassicGroup) or not group.is_unled:
        return (), None

    def renew(member: Member) -> None:
        if group.members.by_id.get(member.member_id) is member:
            rebalance.renew_session(group, environment, member.member_id, member.session_timeout_ms)

    in_portions(group_id, environment, list(group.members.by_id.values()), renew)
    return rebalance.resume(group, environment), None


def _classic_value(group: ConsumerGroup, environment: GroupEnvironment) -> Steps[GroupMetadataValue]:
    """Return the group's record in the classic protocol. Its generation is the epoch of the last assignment.

    So the next heartbeats of members in that epoch ask them to join, and those of other members are refused, as in
    Apache Kafka.
    """
    members = list(group.members.values())
    first = classic_of(members[0])
    common = [name for name, _ in first.supported_protocols if group.subscriptions.protocols[name] == len(members)]
    protocol = common[0] if common else first.supported_protocols[0].name
    classic = yield from each(members, lambda member: _classic_member(group, member, protocol, environment))
    packed = yield from each(classic, write_member)
    return GroupMetadataValue(
        group.protocol_type,
        group.assignment_epoch,
        protocol,
        None,
        environment.now_ms(),
        tuple(classic),
        b"".join(packed),
    )


def _classic_member(
    group: ConsumerGroup, member: ConsumerMember, protocol: str, environment: GroupEnvironment
) -> ClassicMember:
    metadata, classic = member.metadata, classic_of(member)
    protocol_metadata = dict(classic.supported_protocols).get(protocol, b"")
    target = group.target.get(member.member_id, NOTHING)
    return ClassicMember(
        member.member_id,
        metadata.instance_id,
        metadata.client_id,
        metadata.client_host,
        metadata.rebalance_timeout_ms,
        classic.session_timeout_ms,
        protocol_metadata,
        embedded_assignment(member, target, environment),
    )


def embedded_assignment(member: ConsumerMember, assignment: Assignment, environment: GroupEnvironment) -> bytes:
    """Return the assignment in the format of the classic protocol. Deleted topics are left out."""
    topics = environment.image.topics
    named: dict[str, tuple[int, ...]] = {}
    for topic_id, partitions in assignment.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            named[topic.name] = partitions
    version = subscription_version(classic_of(member).supported_protocols[0].metadata)
    return write_assignment(version, named)
