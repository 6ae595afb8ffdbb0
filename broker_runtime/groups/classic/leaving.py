"""LeaveGroup (13): members leave, or an administrator removes them (KIP-345). Pure."""

from broker_runtime.coordination.seam import Deciding
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic import rebalance
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.modern import ModernGroups
from broker_runtime.groups.classic.rebalance import NOTHING
from broker_runtime.groups.classic.requests import LeaveAnswer, LeaveRequest, LeavingMember
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.state import GroupsState

CHUNK = 100
"""Maximum number of members removed in one decision: a millisecond or two, including timers and pending requests."""


def leave(
    state: GroupsState,
    environment: GroupEnvironment,
    request: LeaveRequest,
    modern: ModernGroups,
) -> Deciding[GroupRecord, LeaveAnswer]:
    """Decide a LeaveGroup. Raises KafkaError if the group id is empty."""
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    group = state.groups.get(request.group_id)
    if group is None:
        return NOTHING, LeaveAnswer(tuple(ErrorCode.UNKNOWN_MEMBER_ID for _ in request.members))
    if not isinstance(group, ClassicGroup):
        return modern.leave(state, environment, group, request)
    errors = tuple(_go(group, environment, leaving) for leaving in request.members)
    somebody_went = ErrorCode.NONE in errors and not group.is_empty
    records = rebalance.prepare_or_complete(group, environment) if somebody_went else NOTHING
    return records, LeaveAnswer(errors)


def _go(group: ClassicGroup, environment: GroupEnvironment, leaving: LeavingMember) -> ErrorCode:
    members = group.members
    member_id = leaving.member_id
    if not member_id:
        member_id = members.static.get(leaving.group_instance_id or "", "")
        if not member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id in members.pending_ids:
        rebalance.remove_pending(group, environment, member_id)
        return ErrorCode.NONE
    else:
        refusal = members.refusal(member_id, leaving.group_instance_id)
        if refusal is not None:
            return refusal
    rebalance.remove(group, environment, members.by_id[member_id])
    return ErrorCode.NONE
