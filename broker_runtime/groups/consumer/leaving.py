"""A member leaves: permanently (-1) or, if it is static, until its next instance joins (-2). Pure."""

from collections.abc import Sequence
from functools import partial

from broker_runtime.groups.consumer.fencing import disarm_rebalance, fence, find_consumer_group
from broker_runtime.groups.consumer.joining import check_instance
from broker_runtime.groups.consumer.state.member import STATIC_LEAVE_EPOCH
from broker_runtime.groups.consumer.state.validity import ConsumerHeartbeatRequest
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.records import ConsumerGroupCurrentMemberAssignmentKey, GroupRecord
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import Steps


def leave(
    state: GroupsState, environment: GroupEnvironment, request: ConsumerHeartbeatRequest
) -> Steps[Sequence[GroupRecord]]:
    """Return the records that remove the leaving member. Raises KafkaError.

    A static member that leaves temporarily keeps its partitions and its session.
    """
    group = find_consumer_group(state, request.group_id)
    if request.instance_id is None:
        return (yield from fence(group, [group.member(request.member_id)], environment))
    static = group.static_member(request.instance_id)
    member = check_instance(static, request.instance_id, request.member_id)
    if request.member_epoch != STATIC_LEAVE_EPOCH:
        return (yield from fence(group, [member], environment))
    environment.timers.once_taken(partial(disarm_rebalance, group.group_id, member.member_id, environment))
    key = ConsumerGroupCurrentMemberAssignmentKey(group.group_id, member.member_id)
    return [GroupRecord(key, member.away().current)]
