"""Decides ConsumerGroupHeartbeat (KIP-848). Pure.

A heartbeat reports what a member subscribes to and owns. The answer has the partitions that it may own and the time of
its next heartbeat. Without news, and if its group waits for no member, it costs a lookup and a timer. Otherwise the
member takes part in a rebalance and must learn of its next step soon. Its next heartbeat is due before the usual
interval, unlike in Apache Kafka.
"""

from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from broker_runtime.coordination.seam import AtomicBatch, Decided, Deciding
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.consumer.advance import advance
from broker_runtime.groups.consumer.fencing import arm_session, find_consumer_group, stop_waiting
from broker_runtime.groups.consumer.joining import begin_session, speaker_of, take_room_if_new
from broker_runtime.groups.consumer.leaving import leave
from broker_runtime.groups.consumer.regexes import refresh_is_due
from broker_runtime.groups.consumer.state.group import ConsumerGroup
from broker_runtime.groups.consumer.state.member import NOTHING, ConsumerMember, MemberState, are_many
from broker_runtime.groups.consumer.state.subscriptions import NAMES_AT_ONCE_MAX, sorted_names
from broker_runtime.groups.consumer.state.times import times_of
from broker_runtime.groups.consumer.state.validity import ConsumerHeartbeatRequest, check_request
from broker_runtime.groups.consumer.upgrading import release_soon, upgraded
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.group import Group
from broker_runtime.groups.records import Assignment, GroupRecord
from broker_runtime.groups.room import check_room_for_group
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import Steps, in_steps_if

_SOON_PER_MS = 5
"""Heartbeats per millisecond of one group while it rebalances: at most a quarter of a core, whatever the group's
size."""


class ConsumerHeartbeatAnswer(NamedTuple):
    """The answer to a ConsumerGroupHeartbeat."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
    """The new assignment; None if the assignment has not changed."""


def heartbeat(
    state: GroupsState, environment: GroupEnvironment, request: ConsumerHeartbeatRequest
) -> Deciding[GroupRecord, ConsumerHeartbeatAnswer]:
    """Decide a heartbeat, in steps if the decision takes long. Raises KafkaError."""
    answer = settled(state, environment, request)
    if answer is not None:
        return (), answer
    check_request(request, environment.config)
    group = state.groups.get(request.group_id)
    return in_steps_if(_takes_long(group, request), _heartbeat(state, environment, request, group))


def _takes_long(group: Group | None, request: ConsumerHeartbeatRequest) -> bool:
    if len(request.subscribed_topic_names or ()) > NAMES_AT_ONCE_MAX or are_many(request.owned or {}):
        return True
    if isinstance(group, ClassicGroup):
        return bool(group.members.by_id)
    if not isinstance(group, ConsumerGroup):
        return False
    return group.subscriptions.are_many or _holds_many(group, request)


def _holds_many(group: ConsumerGroup, request: ConsumerHeartbeatRequest) -> bool:
    """Whether a decision about the member's assignment and target is made in steps."""
    return any(
        member is not None and (member.holds_many() or are_many(group.target.get(member.member_id, NOTHING)))
        for member in (group.members.get(request.member_id), group.static_member(request.instance_id))
    )


def _heartbeat(
    state: GroupsState, environment: GroupEnvironment, request: ConsumerHeartbeatRequest, group: Group | None
) -> Steps[Decided[GroupRecord, ConsumerHeartbeatAnswer]]:
    if request.member_epoch < 0:
        member_id, epoch = request.member_id, request.member_epoch
        return (yield from leave(state, environment, request)), ConsumerHeartbeatAnswer(member_id, epoch)
    if not request.is_join:
        found = find_consumer_group(state, request.group_id)
        return (yield from _decide(state, found, environment, request, []))
    records: list[GroupRecord] = []
    if isinstance(group, ConsumerGroup):
        return (yield from _decide(state, group, environment, request, records))
    if group is not None and not isinstance(group, ClassicGroup) and not group.is_empty:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {group.group_id} has members that use another protocol"
        )
    if not isinstance(group, ClassicGroup) or group.is_empty:
        check_room_for_group(state, environment, request.group_id)
        records += () if group is None else group.tombstones()
        return (yield from _decide(state, ConsumerGroup(request.group_id), environment, request, records))
    made = yield from upgraded(group, environment, records)
    _, answer = yield from _decide(state, made, environment, request, records)
    release_soon(group, environment)
    return AtomicBatch(records), answer


def settled(
    state: GroupsState, environment: GroupEnvironment, request: ConsumerHeartbeatRequest
) -> ConsumerHeartbeatAnswer | None:
    """Return the answer to a member that only renews its session.

    None if `heartbeat` has to decide the request.
    """
    group = state.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup) or request.member_epoch <= 0 or not request.changes_nothing:
        return None
    member = group.members.get(request.member_id)
    if member is None or not _is_settled(group, member, request, environment):
        return None
    arm_session(request.group_id, member, environment)
    interval_ms = times_of(request.group_id, environment).heartbeat_interval_ms
    return ConsumerHeartbeatAnswer(member.member_id, member.epoch, interval_ms)


def _is_settled(
    group: ConsumerGroup, member: ConsumerMember, request: ConsumerHeartbeatRequest, environment: GroupEnvironment
) -> bool:
    """Whether the request needs no work except renewing the member's session."""
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


def _decide(
    state: GroupsState,
    group: ConsumerGroup,
    environment: GroupEnvironment,
    request: ConsumerHeartbeatRequest,
    records: list[GroupRecord],
) -> Steps[Decided[GroupRecord, ConsumerHeartbeatAnswer]]:
    member_id = request.member_id or environment.new_id()
    speaker = yield from speaker_of(group, request, member_id, environment.config.group_consumer_max_size, records)
    updated = yield from _updated(speaker.member, request)
    take_room_if_new(environment, group, speaker.member, updated)
    moved = yield from advance(group, environment, speaker, updated, request.owned, records, request.topic_filter)
    begin_session(state, group, speaker, moved, environment)
    if speaker.member.speaks_classic:
        environment.timers.once_taken(partial(stop_waiting, group.group_id, moved.member_id, environment))
    assigned = moved.current.assigned_partitions
    says = request.is_full or assigned != speaker.member.current.assigned_partitions
    soon_ms = _soon_ms(group, environment)
    return records, ConsumerHeartbeatAnswer(moved.member_id, moved.epoch, soon_ms, assigned if says else None)


def _updated(member: ConsumerMember, request: ConsumerHeartbeatRequest) -> Steps[ConsumerMember]:
    """Return the member with the properties and the subscription of the request."""
    known = member.metadata
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    subscribed = known.subscribed_topic_names if names is None else (yield from sorted_names(names))
    metadata = replace(
        known,
        instance_id=request.instance_id if request.instance_id is not None else known.instance_id,
        rack_id=request.rack_id if request.rack_id is not None else known.rack_id,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if request.rebalance_timeout_ms != -1 else known.rebalance_timeout_ms
        ),
        server_assignor=request.server_assignor if request.server_assignor is not None else known.server_assignor,
        subscribed_topic_names=subscribed,
        subscribed_topic_regex=regex if regex is not None else known.subscribed_topic_regex,
        client_id=request.client_id,
        client_host=request.client_host,
        classic_member_metadata=None,
    )
    return member if metadata == known else replace(member, metadata=metadata)


def _soon_ms(group: ConsumerGroup, environment: GroupEnvironment) -> int:
    """Milliseconds until the next heartbeat of a member that takes part in a rebalance."""
    config = environment.config
    soon_ms = max(config.sluicegate_group_consumer_rebalance_heartbeat_interval_ms, len(group.members) // _SOON_PER_MS)
    return min(soon_ms, times_of(group.group_id, environment).heartbeat_interval_ms)
