"""SyncGroup (14): the leader sends the assignment, and each member gets its part once it is durable. Pure."""

from collections.abc import Mapping
from functools import partial

from broker_runtime.errors import ErrorCode
from broker_runtime.groups.answers import DeferredAnswer
from broker_runtime.groups.classic import rebalance
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.member import Member
from broker_runtime.groups.classic.modern import Decided, ModernGroups
from broker_runtime.groups.classic.portions import in_portions
from broker_runtime.groups.classic.rebalance import NOTHING, Records
from broker_runtime.groups.classic.requests import SyncAnswer, SyncRequest
from broker_runtime.groups.classic.states import ClassicState
from broker_runtime.groups.environment import GroupEnvironment, take_room
from broker_runtime.groups.record_codec import write_member
from broker_runtime.groups.records import ClassicMember
from broker_runtime.groups.state import GroupsState

Syncing = Decided[DeferredAnswer[SyncAnswer]]


def sync(
    state: GroupsState,
    environment: GroupEnvironment,
    request: SyncRequest,
    modern: ModernGroups,
) -> Syncing:
    """Decide a SyncGroup. The answer follows the leader's request, or is immediate.

    Raises KafkaError if the broker has no room for the assignments.
    """
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID)
    group = state.groups.get(request.group_id)
    if group is None or group.is_empty:
        return _refused(ErrorCode.UNKNOWN_MEMBER_ID)
    if not isinstance(group, ClassicGroup):
        return modern.sync(state, environment, group, request)
    refusal = _refusal(group, request)
    if refusal is not None:
        return _refused(refusal)
    longest, most = environment.config.sluicegate_group_member_bytes_max, environment.config.group_max_size
    if len(request.assignments) > most or any(len(assignment) > longest for _, assignment in request.assignments):
        return _refused(ErrorCode.INVALID_REQUEST)
    if group.state is ClassicState.COMPLETING_REBALANCE and group.leader == request.member_id:
        size = sum(len(assignment) for _, assignment in request.assignments)
        take_room(environment, size, group.group_id)
    rebalance.has_synced(group, environment, request.member_id)
    member = group.members.by_id[request.member_id]
    if group.state is ClassicState.STABLE:
        return NOTHING, DeferredAnswer.of(_assigned(group, member))
    return _wait(group, environment, request, member)


def _refused(error: ErrorCode) -> Syncing:
    return NOTHING, DeferredAnswer.of(SyncAnswer(error))


def _refusal(group: ClassicGroup, request: SyncRequest) -> ErrorCode | None:
    refusal = group.members.refusal(request.member_id, request.group_instance_id)
    if refusal is not None:
        return refusal
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type) or request.protocol not in (None, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is ClassicState.PREPARING_REBALANCE else None


def _wait(group: ClassicGroup, environment: GroupEnvironment, request: SyncRequest, member: Member) -> Syncing:
    """Let the SyncGroup wait for the leader's. An earlier pending SyncGroup of the same member gets an error."""
    if member.sync is not None:
        environment.outbox.send(member.sync, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
    later: DeferredAnswer[SyncAnswer] = DeferredAnswer()
    group.members.wait_for_sync(member, later)
    if group.leader != member.member_id:
        return NOTHING, later
    return _assign(group, environment, dict(request.assignments)), later


def _assign(group: ClassicGroup, environment: GroupEnvironment, assignments: Mapping[str, bytes]) -> Records:
    """Write the leader's assignment, unless another rebalance starts before it is encoded.

    A member that the assignment does not name gets an empty one.
    """
    generation, protocol = group.generation, group.protocol or ""
    members: list[ClassicMember] = []
    packed: list[bytes] = []

    def still_wanted() -> bool:
        return group.generation == generation and group.state is ClassicState.COMPLETING_REBALANCE

    def pack(member: Member) -> None:
        if still_wanted():
            recorded = member.recorded(protocol, assignments.get(member.member_id, b""))
            members.append(recorded)
            packed.append(write_member(recorded))

    def write() -> Records:
        if not still_wanted():
            return NOTHING
        key = (group.group_id, "assigned")
        environment.timers.schedule(key, 0.0, partial(_was_written, group, generation, environment))
        return [group.record(members, environment.now_ms(), b"".join(packed))]

    return in_portions(group.group_id, environment, list(group.members.by_id.values()), pack, write)


def _was_written(
    group: ClassicGroup, generation: int, environment: GroupEnvironment, state: GroupsState
) -> tuple[Records, None]:
    """Send all members their assignment if the log has taken the record, which made the group Stable.

    This is decided directly after the leader's request. If the log refused the record, all members have to join again.
    """
    if state.groups.get(group.group_id) is not group or group.generation != generation:
        return NOTHING, None
    if group.state is ClassicState.COMPLETING_REBALANCE:
        rebalance.fail_pending_syncs(group, environment, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return rebalance.prepare(group, environment), None
    in_portions(
        group.group_id, environment, list(group.members.syncing.values()), partial(_hand_out, group, environment)
    )
    return NOTHING, None


def _hand_out(group: ClassicGroup, environment: GroupEnvironment, member: Member) -> None:
    if member.sync is None or group.members.by_id.get(member.member_id) is not member:
        return
    environment.outbox.send(member.sync, _assigned(group, member))
    group.members.wait_for_sync(member, None)
    rebalance.renew_session(group, environment, member.member_id, member.session_timeout_ms)


def _assigned(group: ClassicGroup, member: Member) -> SyncAnswer:
    return SyncAnswer(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol)
