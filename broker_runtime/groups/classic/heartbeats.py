"""Heartbeat (12): renews the session of a member, and reports whether it has to join again. Pure."""

from broker_runtime.errors import ErrorCode
from broker_runtime.groups.classic import rebalance
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.modern import Decided, ModernGroups
from broker_runtime.groups.classic.rebalance import NOTHING
from broker_runtime.groups.classic.requests import HeartbeatRequest
from broker_runtime.groups.classic.states import ClassicState
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.group import Committer, Group
from broker_runtime.groups.state import GroupsState


def heartbeat(
    state: GroupsState,
    environment: GroupEnvironment,
    request: HeartbeatRequest,
    modern: ModernGroups,
) -> Decided[ErrorCode]:
    """Decide a Heartbeat and return its error code.

    The code is NONE while the group waits for the leader's assignment: a member may send heartbeats before it syncs.
    """
    if not request.group_id:
        return NOTHING, ErrorCode.INVALID_GROUP_ID
    group = state.groups.get(request.group_id)
    if group is None:
        return NOTHING, ErrorCode.UNKNOWN_MEMBER_ID
    if not isinstance(group, ClassicGroup):
        return modern.heartbeat(state, environment, group, request)
    refusal = group.members.refusal(request.member_id, request.group_instance_id)
    if refusal is not None:
        return NOTHING, refusal
    if request.generation != group.generation:
        return NOTHING, ErrorCode.ILLEGAL_GENERATION
    member = group.members.by_id[request.member_id]
    rebalance.renew_session(group, environment, member.member_id, member.session_timeout_ms)
    waits = group.state is ClassicState.PREPARING_REBALANCE
    return NOTHING, ErrorCode.REBALANCE_IN_PROGRESS if waits else ErrorCode.NONE


def keep_session(environment: GroupEnvironment, group: Group, committer: Committer) -> None:
    """Renew the session of a member that commits."""
    if isinstance(group, ClassicGroup):
        member = group.members.by_id.get(committer.member_id)
        if member is not None:
            rebalance.renew_session(group, environment, member.member_id, member.session_timeout_ms)
