"""Upgrades a group of the classic protocol to KIP-848 when a member of that protocol joins it (KIP-848). Pure.

All members stay, as members that speak the classic protocol, with the assignment of the last generation. Members that
wait for the next generation are asked to join again. group.consumer.migration.policy decides whether groups with
members are upgraded.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial

from broker_runtime.config.keys.groups import MigrationPolicy
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.member import Member
from broker_runtime.groups.classic.portions import in_portions
from broker_runtime.groups.classic.requests import JoinAnswer, SyncAnswer
from broker_runtime.groups.consumer.embedded import (
    EmbeddedSubscription,
    PartitionsByName,
    read_assignment,
    read_subscription,
)
from broker_runtime.groups.consumer.fencing import arm_session
from broker_runtime.groups.consumer.state.group import APPLIERS, ConsumerGroup
from broker_runtime.groups.consumer.state.member import NOTHING, MemberState, same_epochs
from broker_runtime.groups.consumer.state.subscriptions import sorted_names
from broker_runtime.groups.consumer.state.topics import by_id
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.records import (
    Assignment,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupRecord,
)
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import Steps, chosen, each, listed

log = logging.getLogger(__name__)


def upgraded(group: ClassicGroup, environment: GroupEnvironment, records: list[GroupRecord]) -> Steps[ConsumerGroup]:
    """Return the upgraded group, and append its records to `records`.

    The records must be written as an `EmptyTarget`. Raises KafkaError (GROUP_ID_NOT_FOUND).
    """
    config = environment.config
    if not MigrationPolicy.of(config).upgrade:
        raise _not_upgraded(group, "online upgrade is disabled")
    if group.protocol_type != ConsumerGroup.protocol_type:
        raise _not_upgraded(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > config.group_consumer_max_size:
        raise _not_upgraded(group, "the group size exceeds the consumer group maximum size")
    try:
        made = yield from _records(group, environment)
    except ValueError as error:
        raise _not_upgraded(group, f"the embedded consumer protocol is malformed: {error}") from error
    scratch = GroupsState(APPLIERS)
    yield from each(enumerate(made), lambda numbered: scratch.apply(numbered[1], numbered[0]))
    yield from scratch.count_the_rest()
    records += group.tombstones()
    records += made
    found = scratch.groups[group.group_id]
    assert isinstance(found, ConsumerGroup)
    return found


def release_soon(group: ClassicGroup, environment: GroupEnvironment) -> None:
    """Finish the upgrade once the log has taken its records.

    Waiting members must join again, and all sessions continue.
    """
    environment.timers.schedule((group.group_id, "upgraded"), 0, partial(_release_waiting, group, environment))


def _release_waiting(
    group: ClassicGroup, environment: GroupEnvironment, state: GroupsState
) -> tuple[Sequence[GroupRecord], None]:
    made = state.groups.get(group.group_id)
    if not isinstance(made, ConsumerGroup):
        return (), None

    def release(member: Member) -> None:
        if member.sync is not None:
            environment.outbox.send(member.sync, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
            group.members.wait_for_sync(member, None)
        if member.join is not None:
            environment.outbox.send(member.join, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            group.members.wait_for_join(member, None)
        if (known := made.members.get(member.member_id)) is not None:
            arm_session(group.group_id, known, environment)

    in_portions(group.group_id, environment, list(group.members.by_id.values()), release)
    log.info("group %s uses the consumer protocol from now on", group.group_id)
    return (), None


def _not_upgraded(group: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {group.group_id} to consumer group because {why}."
    )


def _metadata(
    member: Member, subscription: EmbeddedSubscription, names: tuple[str, ...]
) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        member.group_instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        names,
        None,
        member.rebalance_timeout_ms,
        None,
        ClassicMemberMetadata(member.session_timeout_ms, member.protocols),
    )


def _had(group: ClassicGroup, owned: Mapping[str, PartitionsByName]) -> Steps[Mapping[str, PartitionsByName]]:
    """Return the partitions of each member: those that the leader has assigned.

    If a rebalance has discarded that assignment, they are those that the member reported when it joined (`owned`).
    Cooperative members keep these until they get another assignment. Raises ValueError.
    """
    found: dict[str, PartitionsByName] = {}
    taken: set[tuple[str, int]] = set()
    for member in group.members.by_id.values():
        given = yield from read_assignment(member.assignment)
        if given.user_data:
            raise ValueError("the members' own assignor added user data to the partitions")
        found[member.member_id] = given.partitions
        for name, indexes in given.partitions.items():
            taken.update((yield from listed((name, index) for index in indexes)))
        yield
    for member in group.members.by_id.values():
        yield
        if member.assignment:
            continue
        own: dict[str, tuple[int, ...]] = {}
        for name, indexes in owned[member.member_id].items():
            free = yield from chosen(indexes, partial(_is_free, taken, name))
            own[name] = tuple(free)
            taken.update((yield from listed((name, index) for index in free)))
        found[member.member_id] = own
    return found


def _is_free(taken: set[tuple[str, int]], topic: str, index: int) -> bool:
    return (topic, index) not in taken


def _records(group: ClassicGroup, environment: GroupEnvironment) -> Steps[list[GroupRecord]]:
    """Return the records of the upgraded group. Raises ValueError if a member's metadata or assignment is invalid."""
    group_id, epoch = group.group_id, group.generation
    owned: dict[str, PartitionsByName] = {}
    records: list[GroupRecord] = []
    for member in group.members.by_id.values():
        subscription = yield from read_subscription(member.protocols[0].metadata)
        owned[member.member_id] = subscription.owned or {}
        metadata = _metadata(member, subscription, (yield from sorted_names(subscription.topics)))
        records.append(GroupRecord(ConsumerGroupMemberMetadataKey(group_id, member.member_id), metadata))
    had = yield from _had(group, owned)
    held: dict[str, Assignment] = {}
    for member_id, named in had.items():
        held[member_id] = yield from by_id(named, environment.image)
        yield
    records.append(GroupRecord(ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch)))

    def target(one: tuple[str, Assignment]) -> GroupRecord:
        value = ConsumerGroupTargetAssignmentMemberValue(one[1])
        return GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, one[0]), value)

    def current(one: tuple[str, Assignment]) -> GroupRecord:
        member_id, assigned = one
        since = same_epochs(assigned, epoch)
        value = ConsumerGroupCurrentMemberAssignmentValue(epoch, epoch, MemberState.STABLE, assigned, NOTHING, since)
        return GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), value)

    records += yield from each(held.items(), target)
    records.append(
        GroupRecord(
            ConsumerGroupTargetAssignmentMetadataKey(group_id), ConsumerGroupTargetAssignmentMetadataValue(epoch)
        )
    )
    records += yield from each(held.items(), current)
    return records
