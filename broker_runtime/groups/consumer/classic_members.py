"""Members of a KIP-848 group that speak the classic protocol, and the decisions about their requests. Pure.

They get the classic protocol's answers. The coordinator assigns partitions to them as to other members. A join
corresponds to a heartbeat, and the member's epoch is its generation. The error REBALANCE_IN_PROGRESS makes a member
join if it can take another step.
"""

from collections.abc import Container, Sequence
from functools import partial

from msgspec.structs import replace

from broker_runtime.coordination.seam import Deciding
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.answers import DeferredAnswer
from broker_runtime.groups.classic.joining import Joined, Joining, join
from broker_runtime.groups.classic.modern import Decided, ModernGroups
from broker_runtime.groups.classic.requests import (
    NO_ID,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    LeavingMember,
    SyncAnswer,
    SyncRequest,
)
from broker_runtime.groups.consumer.advance import advance
from broker_runtime.groups.consumer.downgrading import downgrade_soon, embedded_assignment
from broker_runtime.groups.consumer.embedded import EmbeddedSubscription, read_subscription
from broker_runtime.groups.consumer.fencing import JOIN, SYNC, arm_session, fence
from broker_runtime.groups.consumer.joining import (
    Speaker,
    begin_session,
    check_instance,
    check_room,
    replacement,
    take_room_if_new,
)
from broker_runtime.groups.consumer.reconciliation import without
from broker_runtime.groups.consumer.state.group import ConsumerGroup
from broker_runtime.groups.consumer.state.member import NOTHING, ConsumerMember, MemberState, classic_of
from broker_runtime.groups.consumer.state.subscriptions import sorted_names
from broker_runtime.groups.consumer.state.topics import by_id
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.group import Group
from broker_runtime.groups.records import ClassicMemberMetadata, GroupRecord
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import Steps, in_steps_if

_BYTES_AT_ONCE_MAX = 4_096


class ClassicMembers:
    """Decides classic members' requests for a KIP-848 group: implements `classic.modern.ModernGroups`.

    Push groups have no members of the classic protocol, and accept none while they have consumers.
    """

    def join(self, state: GroupsState, environment: GroupEnvironment, group: Group, request: JoinRequest) -> Joining:
        if not isinstance(group, ConsumerGroup):
            return (), DeferredAnswer.of(JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, NO_ID))
        if group.is_empty:
            return _take_over(state, environment, group, request)
        size = sum(len(metadata) for _, metadata in request.protocols)
        many = size > _BYTES_AT_ONCE_MAX or group.subscriptions.are_many
        return in_steps_if(many, _join_or_refuse(state, environment, group, request))

    def sync(
        self, state: GroupsState, environment: GroupEnvironment, group: Group, request: SyncRequest
    ) -> Decided[DeferredAnswer[SyncAnswer]]:
        if not isinstance(group, ConsumerGroup):
            return (), DeferredAnswer.of(SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        try:
            return (), DeferredAnswer.of(_sync(environment, group, request))
        except KafkaError as error:
            return (), DeferredAnswer.of(SyncAnswer(error.code))

    def heartbeat(
        self, state: GroupsState, environment: GroupEnvironment, group: Group, request: HeartbeatRequest
    ) -> Decided[ErrorCode]:
        if not isinstance(group, ConsumerGroup):
            return (), ErrorCode.UNKNOWN_MEMBER_ID
        try:
            member = _member(group, request.member_id, request.group_instance_id, request.generation)
        except KafkaError as error:
            return (), error.code
        arm_session(group.group_id, member, environment)
        if not _may_go_on(group, member):
            return (), ErrorCode.NONE
        _expect_join(group, member, environment)
        return (), ErrorCode.REBALANCE_IN_PROGRESS

    def leave(
        self, state: GroupsState, environment: GroupEnvironment, group: Group, request: LeaveRequest
    ) -> Deciding[GroupRecord, LeaveAnswer]:
        if not isinstance(group, ConsumerGroup):
            return (), LeaveAnswer(tuple(ErrorCode.UNKNOWN_MEMBER_ID for _ in request.members))
        errors = []
        gone: dict[str, ConsumerMember] = {}
        for leaving in request.members:
            try:
                member = _leaving(group, leaving, gone)
            except KafkaError as error:
                errors.append(error.code)
                continue
            gone[member.member_id] = member
            errors.append(ErrorCode.NONE)
        fencing = _fence(group, list(gone.values()), environment, LeaveAnswer(tuple(errors)))
        return in_steps_if(group.subscriptions.are_many, fencing)


def _fence(
    group: ConsumerGroup, gone: Sequence[ConsumerMember], environment: GroupEnvironment, answer: LeaveAnswer
) -> Steps[Decided[LeaveAnswer]]:
    return (yield from fence(group, gone, environment)) if gone else (), answer


CLASSIC_MEMBERS: ModernGroups = ClassicMembers()


def _take_over(
    state: GroupsState, environment: GroupEnvironment, group: ConsumerGroup, request: JoinRequest
) -> Decided[DeferredAnswer[JoinAnswer]]:
    """Let a classic member take over an empty group, which changes its protocol once the log has the tombstones."""
    if request.member_id:
        return (), DeferredAnswer.of(JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
    if not request.protocol_type or not request.protocols:
        return (), DeferredAnswer.of(JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
    answer: DeferredAnswer[JoinAnswer] = DeferredAnswer()
    environment.timers.schedule(
        (group.group_id, "taken over", answer), 0, partial(_join_then, environment, group, request, answer)
    )
    return group.tombstones(), answer


def _join_then(
    environment: GroupEnvironment,
    ended: ConsumerGroup,
    request: JoinRequest,
    answer: DeferredAnswer[JoinAnswer],
    state: GroupsState,
) -> Steps[Decided[None]]:
    """Join the group that has followed. Does nothing if the log has refused the end of the group before."""
    if state.groups.get(ended.group_id) is ended:
        return (), None
    joining = join(state, environment, request, CLASSIC_MEMBERS)
    # A member of KIP-848 may have made the group again.
    records, joined = joining if isinstance(joining, tuple) else (yield from joining)
    if joined.result is None:
        joined.then(answer.give)
    else:
        environment.outbox.send(answer, joined.result)
    return records, None


def _join_or_refuse(
    state: GroupsState, environment: GroupEnvironment, group: ConsumerGroup, request: JoinRequest
) -> Steps[Joined]:
    try:
        return (yield from _join(state, environment, group, request))
    except KafkaError as error:
        return (), DeferredAnswer.of(JoinAnswer(error.code, NO_ID))


def _join(
    state: GroupsState, environment: GroupEnvironment, group: ConsumerGroup, request: JoinRequest
) -> Steps[Joined]:
    """Decide the JoinGroup. Raises KafkaError."""
    member_id = request.member_id or environment.new_id()
    check_room(group, member_id, environment.config.group_consumer_max_size)
    _check_protocols(group, request)
    if request.needs_known_id and not request.member_id and request.group_instance_id is None:
        return (), DeferredAnswer.of(JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    subscription = yield from _subscription(request)
    records: list[GroupRecord] = []
    speaker = _speaker(group, request, member_id, records)
    owned = None if subscription.owned is None else (yield from by_id(subscription.owned, environment.image))
    names = yield from sorted_names(subscription.topics)
    updated = _updated(speaker.member, request, subscription, names)
    take_room_if_new(environment, group, speaker.member, updated)
    moved = yield from advance(group, environment, speaker, updated, owned or {}, records)
    begin_session(state, group, speaker, moved, environment)
    environment.timers.once_taken(partial(_expect_sync, environment, group.group_id, moved))
    if speaker.registered is not None and not speaker.registered.speaks_classic:
        downgrade_soon(group.group_id, environment)
    protocol = classic_of(moved).supported_protocols[0].name
    answer = JoinAnswer(ErrorCode.NONE, member_id, moved.epoch, group.protocol_type, protocol)
    later: DeferredAnswer[JoinAnswer] = DeferredAnswer.of(answer)
    return records, later


def _check_protocols(group: ConsumerGroup, request: JoinRequest) -> None:
    """Raise KafkaError (INCONSISTENT_GROUP_PROTOCOL) if the other members do not support one of its protocols."""
    subscriptions = group.subscriptions
    common = any(subscriptions.protocols[name] == subscriptions.classic_members for name, _ in request.protocols)
    if request.protocol_type != group.protocol_type or not common:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the group does not support any of the member's protocols"
        )


def _subscription(request: JoinRequest) -> Steps[EmbeddedSubscription]:
    """Return the subscription in the first protocol of the request. Raises KafkaError (INCONSISTENT_GROUP_PROTOCOL)."""
    try:
        return (yield from read_subscription(request.protocols[0].metadata))
    except ValueError as error:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"no subscription: {error}") from error


def _speaker(group: ConsumerGroup, request: JoinRequest, member_id: str, records: list[GroupRecord]) -> Speaker:
    """Find the member that sent the request.

    A static member that joins without an id replaces its last instance, whichever protocol that instance spoke.
    """
    if request.group_instance_id is None:
        known = group.members.get(member_id)
        return Speaker(known or ConsumerMember(member_id), known)
    static = group.static_member(request.group_instance_id)
    if request.member_id:
        member = check_instance(static, request.group_instance_id, member_id)
        return Speaker(member, member)
    if static is None:
        return Speaker(ConsumerMember(member_id), None)
    return replacement(group, static, member_id, records)


def _updated(
    member: ConsumerMember, request: JoinRequest, subscription: EmbeddedSubscription, names: tuple[str, ...]
) -> ConsumerMember:
    metadata = replace(
        member.metadata,
        instance_id=request.group_instance_id or member.metadata.instance_id,
        rack_id=subscription.rack_id or member.metadata.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topic_names=names,
        subscribed_topic_regex=None,
        client_id=request.client_id,
        client_host=request.client_host,
        classic_member_metadata=ClassicMemberMetadata(request.session_timeout_ms, request.protocols),
    )
    return member if metadata == member.metadata else replace(member, metadata=metadata)


def _sync(environment: GroupEnvironment, group: ConsumerGroup, request: SyncRequest) -> SyncAnswer:
    """Answer the SyncGroup. Raises KafkaError."""
    member = _member(group, request.member_id, request.group_instance_id, request.generation)
    protocol = classic_of(member).supported_protocols[0].name
    if request.protocol_type not in (None, group.protocol_type) or request.protocol not in (None, protocol):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the member's protocol is {protocol}")
    if group.epoch > member.epoch and member.current.state != MemberState.UNREVOKED_PARTITIONS:
        _expect_join(group, member, environment)
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "the group rebalances; the member must join again")
    environment.timers.cancel((group.group_id, SYNC, member.member_id))
    arm_session(group.group_id, member, environment)
    assignment = embedded_assignment(member, member.current.assigned_partitions, environment)
    return SyncAnswer(ErrorCode.NONE, assignment, request.protocol_type, request.protocol)


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    """Return the member of this generation. Raises KafkaError."""
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = check_instance(group.static_member(instance_id), instance_id, member_id)
    if not member.speaks_classic:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"member {member.member_id} does not use the classic protocol")
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"the generation of the member is {member.epoch}")
    return member


def _leaving(group: ConsumerGroup, leaving: LeavingMember, gone: Container[str]) -> ConsumerMember:
    """Return the leaving member. Raises KafkaError.

    An administrator sends an instance id with an empty member id, which matches static members of both protocols.
    """
    static = group.static_member(leaving.group_instance_id)
    if leaving.group_instance_id is None:
        member = group.member(leaving.member_id)
    else:
        member_id = leaving.member_id or ("" if static is None else static.member_id)
        member = check_instance(static, leaving.group_instance_id, member_id)
    if member.member_id in gone:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the member has left already")
    return member


def _may_go_on(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether a join would let the member take another step."""
    if member.epoch < group.epoch or member.current.state == MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.current.state != MemberState.UNRELEASED_PARTITIONS:
        return False
    assigned, target = member.current.assigned_partitions, group.target.get(member.member_id, NOTHING)
    return all(
        len(group.owners.free(topic, missing)) == len(missing)
        for topic, partitions in target.items()
        if (missing := without(partitions, assigned.get(topic, ())))
    )


def _expect_join(group: ConsumerGroup, member: ConsumerMember, environment: GroupEnvironment) -> None:
    """Remove the member if it does not join within its rebalance timeout."""
    environment.timers.schedule_if_absent(
        (group.group_id, JOIN, member.member_id),
        member.metadata.rebalance_timeout_ms / 1000,
        partial(_put_out, environment, group.group_id, member.member_id, member.epoch),
    )


def _expect_sync(environment: GroupEnvironment, group_id: str, member: ConsumerMember) -> None:
    """Remove the member if it does not send a SyncGroup within its rebalance timeout."""
    environment.timers.cancel((group_id, JOIN, member.member_id))
    environment.timers.schedule(
        (group_id, SYNC, member.member_id),
        member.metadata.rebalance_timeout_ms / 1000,
        partial(_put_out, environment, group_id, member.member_id, member.epoch),
    )


def _put_out(
    environment: GroupEnvironment, group_id: str, member_id: str, epoch: int, state: GroupsState
) -> Steps[tuple[list[GroupRecord], None]]:
    """Remove the member if it is still in this epoch."""
    group = state.groups.get(group_id)
    member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
    if not isinstance(group, ConsumerGroup) or member is None or not member.speaks_classic or member.epoch != epoch:
        return [], None
    return (yield from fence(group, [member], environment)), None
