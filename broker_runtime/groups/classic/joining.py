"""JoinGroup (11): checks whether a client may join, and what its (re)joining means for the other members. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from broker_runtime.errors import ErrorCode
from broker_runtime.groups.answers import DeferredAnswer
from broker_runtime.groups.classic import rebalance
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.member import Member, size_of
from broker_runtime.groups.classic.modern import Decided, ModernGroups
from broker_runtime.groups.classic.rebalance import NOTHING
from broker_runtime.groups.classic.requests import NO_ID, JoinAnswer, JoinRequest
from broker_runtime.groups.classic.states import ClassicState
from broker_runtime.groups.classic.subscriptions import names_too_many
from broker_runtime.groups.environment import GroupEnvironment, take_room
from broker_runtime.groups.group import CONSUMER
from broker_runtime.groups.record_codec import write_member
from broker_runtime.groups.room import check_room_for_group
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import Steps, each, in_steps_if

Joined = Decided[DeferredAnswer[JoinAnswer]]
Joining = Joined | Steps[Joined]
"""The decision of a JoinGroup, made in steps if it reads many members."""

_TEXT_MAX = 8_000
"""Maximum length of a text in characters. With a UUID appended it must fit into a record, which allows 32,767 bytes."""


def join(
    state: GroupsState,
    environment: GroupEnvironment,
    request: JoinRequest,
    modern: ModernGroups,
) -> Joining:
    """Decide a JoinGroup. The answer follows with the next generation of the group, or immediately.

    Raises KafkaError if the coordinator has no room for another group.
    """
    refusal = _request_refusal(environment, request)
    if refusal is not None:
        return _refused(refusal, request.member_id)
    group = state.groups.get(request.group_id)
    if group is not None and not isinstance(group, ClassicGroup):
        return modern.join(state, environment, group, request)
    if group is None and request.member_id:
        return _refused(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
    check_room_for_group(state, environment, request.group_id)
    return join_classic(state, environment, request, group or ClassicGroup(request.group_id))


def join_classic(
    state: GroupsState, environment: GroupEnvironment, request: JoinRequest, group: ClassicGroup
) -> Joining:
    """Decide a JoinGroup for a classic group. A new group is added to the state with its first member.

    Raises KafkaError if the broker has no room for the member's subscription.
    """
    if not _has_room(group, request.member_id, environment.config.group_max_size):
        return _turn_away(group, environment, request.member_id)
    if not _speaks_with(group, request):
        return _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    _take_room_if_new(group, environment, request)
    if request.member_id:
        return _come_back(group, environment, request)
    state.groups[group.group_id] = group
    return _come(group, environment, request)


def _request_refusal(environment: GroupEnvironment, request: JoinRequest) -> ErrorCode | None:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    config = environment.config
    if len(request.protocols) > config.sluicegate_group_member_protocols_max:
        return ErrorCode.INVALID_REQUEST
    size = sum(len(name) + len(metadata) for name, metadata in request.protocols)
    if size > config.sluicegate_group_member_bytes_max or any(len(text) > _TEXT_MAX for text in _texts(request)):
        return ErrorCode.INVALID_REQUEST
    if request.protocol_type == CONSUMER and _names_too_many(request, config.sluicegate_group_member_topics_max):
        return ErrorCode.INVALID_REQUEST
    if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return None


def _names_too_many(request: JoinRequest, topics_max: int) -> bool:
    return any(names_too_many(metadata, topics_max) for _, metadata in request.protocols)


def _texts(request: JoinRequest) -> Iterator[str]:
    yield from (request.group_id, request.client_id, request.group_instance_id or "", request.protocol_type)
    yield from (name for name, _ in request.protocols)


def _refused(error: ErrorCode, member_id: str) -> Joined:
    return NOTHING, DeferredAnswer.of(JoinAnswer(error, member_id))


def _has_room(group: ClassicGroup, member_id: str, size_max: int) -> bool:
    """Whether the group has room for the member.

    While joins are gathered, only members that have joined count, so that a group that is too large loses the last
    ones.
    """
    members = group.members
    member = members.by_id.get(member_id)
    if group.state is ClassicState.EMPTY:
        return True
    if group.state is ClassicState.PREPARING_REBALANCE:
        return (member is not None and member.join is not None) or members.joining < size_max
    return member is not None or len(members) < size_max


def _take_room_if_new(group: ClassicGroup, environment: GroupEnvironment, request: JoinRequest) -> None:
    """Reserve room for a new subscription of the member. Raises KafkaError (GROUP_MAX_SIZE_REACHED)."""
    member = group.members.by_id.get(request.member_id)
    is_known = member is not None and member.protocols == request.protocols
    gets_only_an_id = not request.member_id and request.group_instance_id is None and request.needs_known_id
    if not (is_known or gets_only_an_id):
        take_room(environment, size_of(request.protocols), group.group_id)


def _turn_away(group: ClassicGroup, environment: GroupEnvironment, member_id: str) -> Joining:
    member = group.members.by_id.get(member_id)
    if member is not None:
        rebalance.remove(group, environment, member)
    elif member_id in group.members.pending_ids:
        rebalance.remove_pending(group, environment, member_id)
    return _refused(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_ID)


def _speaks_with(group: ClassicGroup, request: JoinRequest) -> bool:
    if group.state is ClassicState.EMPTY:
        return bool(request.protocol_type and request.protocols)
    return request.protocol_type == group.protocol_type and group.members.can_talk_with(request.protocols)


def _come(group: ClassicGroup, environment: GroupEnvironment, request: JoinRequest) -> Joining:
    """Decide a JoinGroup without a member id."""
    instance_id = request.group_instance_id
    new_id = f"{request.client_id if instance_id is None else instance_id}-{environment.new_id()}"
    if instance_id is not None and instance_id in group.members.static:
        return _replace(group, environment, request, new_id)
    if instance_id is not None or not request.needs_known_id:
        return _add(group, environment, request, new_id)
    if len(group.members.pending_ids) >= environment.config.group_max_size:
        return _refused(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_ID)
    rebalance.add_pending(group, environment, new_id, request.session_timeout_ms)
    return _refused(ErrorCode.MEMBER_ID_REQUIRED, new_id)


def _add(group: ClassicGroup, environment: GroupEnvironment, request: JoinRequest, member_id: str) -> Joining:
    member = Member(member_id, request.group_instance_id, request.client_id, request.client_host)
    member.protocols = request.protocols
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    member.is_new = True
    if not len(group.members):
        group.protocol_type = request.protocol_type
        group.leader = member_id
    group.newcomer = True
    later: DeferredAnswer[JoinAnswer] = DeferredAnswer()
    group.members.add(member, later)
    rebalance.renew_session(group, environment, member_id, rebalance.NEW_MEMBER_JOIN_TIMEOUT_MS)
    return rebalance.prepare_or_complete(group, environment), later


def _come_back(group: ClassicGroup, environment: GroupEnvironment, request: JoinRequest) -> Joining:
    """Decide a JoinGroup with a member id."""
    if request.member_id in group.members.pending_ids and request.group_instance_id is None:
        rebalance.remove_pending(group, environment, request.member_id)
        return _add(group, environment, request, request.member_id)
    refusal = group.members.refusal(request.member_id, request.group_instance_id)
    if refusal is not None or group.state is ClassicState.EMPTY:
        return _refused(refusal or ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
    member = group.members.by_id[request.member_id]
    leads_again = group.state is ClassicState.STABLE and group.leader == member.member_id
    gathers = group.state is ClassicState.PREPARING_REBALANCE
    if not gathers and not leads_again and member.protocols == request.protocols:
        return in_steps_if(group.members.are_many, _repeated_answer(group, member))
    later: DeferredAnswer[JoinAnswer] = DeferredAnswer()
    _update(group, environment, member, request, later)
    return rebalance.prepare_or_complete(group, environment), later


def _repeated_answer(group: ClassicGroup, member: Member) -> Steps[Joined]:
    return NOTHING, DeferredAnswer.of((yield from rebalance.joined_again(group, member)))


def _update(
    group: ClassicGroup,
    environment: GroupEnvironment,
    member: Member,
    request: JoinRequest,
    later: DeferredAnswer[JoinAnswer] | None,
) -> None:
    """Take over what a member's JoinGroup contains.

    A pending JoinGroup of the same member gets an error: the client has given it up.
    """
    if member.join is not None:
        environment.outbox.send(member.join, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    group.members.change_protocols(member, request.protocols)
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    group.members.wait_for_join(member, later)


def _replace(group: ClassicGroup, environment: GroupEnvironment, request: JoinRequest, new_id: str) -> Joining:
    """Replace a static member that joins without its member id, mostly because it was restarted (KIP-345).

    If nothing changes for the other members, the new instance takes over the assignment. The old instance is fenced.
    """
    return in_steps_if(group.members.are_many, _replace_in_steps(group, environment, request, new_id))


def _replace_in_steps(
    group: ClassicGroup, environment: GroupEnvironment, request: JoinRequest, new_id: str
) -> Steps[Joined]:
    old_leader = group.leader
    member = _successor(group, environment, request, new_id)
    rebalance.renew_session(group, environment, new_id, request.session_timeout_ms)
    stays = group.state is ClassicState.STABLE and (yield from group.members.elected_protocol()) == group.protocol
    if stays:
        protocol, members = group.protocol or "", group.members.by_id.values()
        recorded = yield from each(members, lambda one: one.recorded(protocol, one.assignment))
        packed = b"".join((yield from each(recorded, write_member)))
        record = group.record(recorded, environment.now_ms(), packed)
        return [record], DeferredAnswer.of((yield from _took_over(group, member, request, old_leader)))
    later: DeferredAnswer[JoinAnswer] = DeferredAnswer()
    group.members.wait_for_join(member, later)
    return rebalance.prepare_or_complete(group, environment), later


def _successor(group: ClassicGroup, environment: GroupEnvironment, request: JoinRequest, new_id: str) -> Member:
    instance_id = request.group_instance_id
    assert instance_id is not None
    members = group.members
    old = members.by_id[members.static[instance_id]]
    led, was_to_sync = group.leader == old.member_id, old.member_id in members.pending_sync
    rebalance.fence(group, environment, old)
    member = Member(new_id, instance_id, request.client_id, request.client_host)
    member.protocols = request.protocols
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    member.assignment = old.assignment
    members.add(member)
    if led:
        group.leader = new_id
    if was_to_sync:
        members.pending_sync.add(new_id)
    return member


def _took_over(group: ClassicGroup, member: Member, request: JoinRequest, old_leader: str | None) -> Steps[JoinAnswer]:
    """Return the answer for a new instance that takes over its assignment.

    If it leads, it must not compute another assignment. The answer says so (KIP-814), or names the old leader to older
    versions.
    """
    answer = yield from rebalance.joined_again(group, member)
    leads = group.leader == member.member_id
    if request.can_skip_assignment:
        return replace(answer, skip_assignment=leads)
    return replace(answer, leader=old_leader or NO_ID, members=())
