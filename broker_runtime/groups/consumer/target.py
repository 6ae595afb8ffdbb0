"""The target assignment: when it is computed, from what, and how it is written to the log. Pure.

It is computed at most once per group.consumer.assignment.interval.ms (KIP-1263), so that changes in between count
together. For a small group, the decision that finds it due computes it immediately. For a larger group, which would
block the event loop, a thread computes it from a copy. The result is written in chunks, each of them a decision. It is
valid with the last chunk: until then, and if the coordinator changes meanwhile, members use the epoch that they know.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from uuid import UUID

from broker_runtime.groups.assignors import ASSIGNORS, MemberSubscription
from broker_runtime.groups.consumer.state.group import ConsumerGroup
from broker_runtime.groups.consumer.state.member import NOTHING, ConsumerMember
from broker_runtime.groups.consumer.state.subscriptions import topics_of
from broker_runtime.groups.consumer.state.times import times_of
from broker_runtime.groups.consumer.state.topics import TopicFacts, known_topics
from broker_runtime.groups.environment import GroupEnvironment, GroupTimer
from broker_runtime.groups.records import (
    Assignment,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupRecord,
)
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import Steps, gathered, listed

log = logging.getLogger(__name__)

AT_ONCE_MAX = 256
"""Limit of members and partitions for computing an assignment without a thread, in about a millisecond."""
_NAMES_LIKE_A_PARTITION = 32
"""Number of subscribed names that take as long as one partition."""
_ASSIGNMENT, _ADOPTION_ENDS = "assignment", "adoption ends"
ASSIGNMENT_TIMERS = (_ASSIGNMENT, _ADOPTION_ENDS)
"""The kinds of timers of a group, at most one timer of each. Keys are (group id, kind).

The module `ended` cancels these timers.
"""
_ADOPTION_S = 10
"""Maximum time between two chunks of an assignment that is being written, in seconds.

Slices that the log refuses are tried again much sooner.
"""
_CHUNK_RECORDS = 64
"""Records of one decision. Encoding and applying them takes about a millisecond."""


class MemberChange(NamedTuple):
    """The change of one member in a decision, before its records are applied.

    `before` is None for a joining member, `after` for a leaving one.
    """

    before: ConsumerMember | None
    after: ConsumerMember | None
    replaced_id: str | None = None
    """The id of the instance that a static member replaces."""


class Target(NamedTuple):
    """The assignment of partitions that one member of a KIP-848 group moves towards."""

    epoch: int
    of_member: Assignment


class Computed(NamedTuple):
    """A newly computed assignment of a KIP-848 group's partitions.

    `changed` has the members whose target has changed, each with its instance id.
    """

    epoch: int
    changed: list[tuple[str, str | None, Assignment]]
    targets: Mapping[str, Assignment]


@dataclass(frozen=True, slots=True)
class AssignmentWork:
    """The input for computing an assignment, which does not change."""

    group_id: str
    epoch: int
    assignor: str
    members: Mapping[str, ConsumerMember]
    target: Mapping[str, Assignment]
    resolved: Mapping[str, ConsumerGroupRegularExpressionValue]
    topics: Mapping[str, TopicFacts]
    size: int
    """The amount of work: members, partitions, and names of topics."""

    def compute(self) -> Computed:
        subscribed: dict[tuple[tuple[str, ...], str | None], frozenset[UUID]] = {}
        members = {}
        for member_id, member in self.members.items():
            asked = (member.metadata.subscribed_topic_names, member.regex)
            if asked not in subscribed:
                names = topics_of(member, self.resolved)
                subscribed[asked] = frozenset(self.topics[name].id for name in names if name in self.topics)
            metadata, current = member.metadata, self.target.get(member_id, NOTHING)
            members[member_id] = MemberSubscription(metadata.instance_id, metadata.rack_id, subscribed[asked], current)
        described = {facts.id: facts.description for facts in self.topics.values()}
        targets = ASSIGNORS[self.assignor](members, described)
        changed = [
            (member_id, members[member_id].instance_id, assignment)
            for member_id, assignment in targets.items()
            if member_id not in self.target or self.target[member_id] != assignment
        ]
        return Computed(self.epoch, changed, targets)


def target_for(
    group: ConsumerGroup,
    epoch: int,
    change: MemberChange,
    environment: GroupEnvironment,
    records: list[GroupRecord],
) -> Steps[Target]:
    """Return the target that the changed member follows now, and compute an assignment if it is due.

    `epoch` is the group's. A computed assignment is appended to `records`.
    """
    last = Target(group.assignment_epoch, _target_of(group, change))
    if group.assignment_epoch >= epoch or group.assigning:
        return last
    wait_ms = _wait_ms(group, environment)
    if wait_ms > 0:
        if is_large(group):
            _assign_later(group.group_id, wait_ms, environment)
        return last
    work = yield from _work(group, epoch, change, environment)
    if work.size <= AT_ONCE_MAX:
        computed = work.compute()
        records += _records(group.group_id, [(member_id, target) for member_id, _, target in computed.changed])
        records.append(_epoch_record(group.group_id, epoch, environment.now_ms()))
        member_id = "" if change.after is None else change.after.member_id
        return Target(epoch, computed.targets.get(member_id, NOTHING))
    if group.assignment_epoch > 0:
        # The timer computes it from applied records only: the records of this decision may be refused.
        _assign_later(group.group_id, 0, environment)
        return last
    # No member has a target yet: the first one has no partitions, and the computed one follows.
    records.append(_epoch_record(group.group_id, epoch - 1, 0))
    _assign_later(group.group_id, 0, environment)
    return Target(epoch - 1, NOTHING)


def is_large(group: ConsumerGroup) -> bool:
    """Whether a thread computes the group's assignments, judged by the last one."""
    return len(group.members) + group.partition_count > AT_ONCE_MAX


def assign_soon(group: ConsumerGroup, environment: GroupEnvironment) -> None:
    """Schedule the assignment of a group whose epoch goes up without a heartbeat.

    A small group is assigned by the next heartbeat.
    """
    if is_large(group):
        _assign_later(group.group_id, max(_wait_ms(group, environment), 0), environment)


def _target_of(group: ConsumerGroup, change: MemberChange) -> Assignment:
    if change.after is None:
        return NOTHING
    known = group.target.get(change.after.member_id)
    if known is None and change.replaced_id is not None:
        known = group.target.get(change.replaced_id)
    return NOTHING if known is None else known


def _wait_ms(group: ConsumerGroup, environment: GroupEnvironment) -> int:
    """Milliseconds until the next assignment may be computed. If the clock was set back, it is at most one interval."""
    interval = times_of(group.group_id, environment).assignment_interval_ms
    if group.assignment_timestamp_ms == 0 or interval == 0:
        return 0
    return min(group.assignment_timestamp_ms + interval - environment.now_ms(), interval)


def _work(
    group: ConsumerGroup, epoch: int, change: MemberChange, environment: GroupEnvironment
) -> Steps[AssignmentWork]:
    members, target = dict(group.members), dict(group.target)
    names = yield from gathered(group.subscriptions.topics)
    if change.after is not None:
        members[change.after.member_id] = change.after
        names |= group.subscriptions.topics_of(change.after)
        if change.replaced_id is not None:
            members.pop(change.replaced_id, None)
            target[change.after.member_id] = target.pop(change.replaced_id, NOTHING)
    topics = yield from known_topics(names, environment.image, group.topic_facts)
    partitions = yield from listed(facts.description.partitions for facts in topics.values())
    group.partition_count = sum(partitions)
    named = yield from listed(len(member.metadata.subscribed_topic_names) for member in members.values())
    asked = group.subscriptions.preferred_assignor(change.before, change.after)
    allowed = environment.config.group_consumer_assignors
    return AssignmentWork(
        group.group_id,
        epoch,
        asked if asked in allowed else allowed[0],
        members,
        target,
        dict(group.subscriptions.resolved),
        topics,
        len(members) + group.partition_count + sum(named) // _NAMES_LIKE_A_PARTITION,
    )


def _assign_later(group_id: str, wait_ms: int, environment: GroupEnvironment) -> None:
    """Compute the assignment by a timer, so that it is ready for the members' next heartbeats, which are rare."""
    environment.timers.schedule_if_absent(
        (group_id, _ASSIGNMENT), wait_ms / 1000, partial(_assign_due, environment, group_id)
    )


def _assign_due(
    environment: GroupEnvironment, group_id: str, state: GroupsState
) -> Steps[tuple[list[GroupRecord], None]]:
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup) and group.epoch > group.assignment_epoch and not group.assigning:
        wait_ms = _wait_ms(group, environment)
        if wait_ms > 0:
            _assign_later(group_id, wait_ms, environment)
        else:
            work = yield from _work(group, group.epoch, MemberChange(None, None), environment)
            _offload_assignment(group, work, environment)
    return [], None


def _offload_assignment(group: ConsumerGroup, work: AssignmentWork, environment: GroupEnvironment) -> None:
    group.assigning = True

    def then(result: Computed | Exception) -> GroupTimer:
        return partial(_adopt_soon, environment, work.group_id, result, 0)

    environment.offload(work.compute, then)


def _adopt_soon(
    environment: GroupEnvironment, group_id: str, result: Computed | Exception, start: int, state: GroupsState
) -> tuple[list[GroupRecord], None]:
    """Schedule the chunk from `start` on.

    All chunks have the same key: none runs before the log has taken the previous one.
    """
    environment.timers.continue_with((group_id, "adoption"), partial(_adopt, environment, group_id, result, start))
    return [], None


def _adopt(
    environment: GroupEnvironment, group_id: str, result: Computed | Exception, start: int, state: GroupsState
) -> Steps[tuple[list[GroupRecord], None]]:
    """Write the next chunk of a computed assignment.

    Members that have left meanwhile are left out; members that have joined wait for the next assignment.
    """
    # The chunks follow each other in one commit. The event loop may run other work before each of them.
    yield
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return [], None
    if isinstance(result, Exception) or not group.assignment_epoch < result.epoch <= group.epoch:
        group.assigning = False
        if isinstance(result, Exception):
            log.error("the assignment of group %s could not be computed", group_id, exc_info=result)
        return [], None
    chosen = []
    for member_id, instance_id, target in result.changed[start : start + _CHUNK_RECORDS]:
        now_id = member_id if instance_id is None else group.static_members.get(instance_id, member_id)
        if now_id in group.members:
            chosen.append((now_id, target))
    records = _records(group_id, chosen)
    environment.timers.schedule(
        (group_id, _ADOPTION_ENDS), _ADOPTION_S, partial(_give_up, environment, group_id, result.epoch)
    )
    start += _CHUNK_RECORDS
    if start < len(result.changed):
        _adopt_soon(environment, group_id, result, start, state)
    else:
        records.append(_epoch_record(group_id, result.epoch, environment.now_ms()))
        environment.timers.once_taken(partial(environment.timers.cancel, (group_id, _ADOPTION_ENDS)))
        if group.epoch > result.epoch:
            _assign_later(group_id, times_of(group_id, environment).assignment_interval_ms, environment)
    return records, None


def _give_up(
    environment: GroupEnvironment, group_id: str, epoch: int, state: GroupsState
) -> tuple[list[GroupRecord], None]:
    """Give up an assignment that is not written in time.

    The log permanently refuses one of its records, for example as too large.
    """
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup) and group.assigning and group.assignment_epoch < epoch:
        group.assigning = False
        log.error(
            "group %s keeps its assignment of epoch %d: the assignment of epoch %d could not be written to "
            "__consumer_offsets. It is computed again when a member sends a heartbeat. If a record is too large, "
            "raise message.max.bytes or the topic's max.message.bytes, or reduce the partitions to which members "
            "subscribe",
            group_id,
            group.assignment_epoch,
            epoch,
        )
    return [], None


def _records(group_id: str, targets: list[tuple[str, Assignment]]) -> list[GroupRecord]:
    return [
        GroupRecord(
            ConsumerGroupTargetAssignmentMemberKey(group_id, member_id),
            ConsumerGroupTargetAssignmentMemberValue(target),
        )
        for member_id, target in targets
    ]


def _epoch_record(group_id: str, epoch: int, now_ms: int) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id), ConsumerGroupTargetAssignmentMetadataValue(epoch, now_ms)
    )
