"""Pings of consumers: one every third of a session timeout, with two thirds of it to answer.

Some failures are allowed. Pure.

Two thirds are two intervals: when a ping is sent, the time of the one before the last has passed. So one timer for each
consumer does both.

An overloaded coordinator pings less often, and loses no consumer because of that. It neither counts a failure
nor sends another ping while the last ping is not sent, or its answer is not read and decided.
"""

from functools import partial

from broker_runtime.groups.push.asking import CALL
from broker_runtime.groups.push.rebalance import fail
from broker_runtime.groups.push.state.calls import Ping, PushEnvironment
from broker_runtime.groups.push.state.decided import NOTHING, Decided
from broker_runtime.groups.push.state.group import PushGroup, find_push_group
from broker_runtime.groups.push.state.member import PushMember
from broker_runtime.groups.state import GroupsState
from broker_runtime.groups.tally import Loss

_PING = "ping"
CONSUMER_TIMERS = (_PING, CALL)
"""The kinds of timers of a consumer, at most one timer of each. Keys are (group id, kind, id).

`groups.ended` cancels these timers.
"""


def ping_later(group: PushGroup, environment: PushEnvironment, member: PushMember, intervals: float = 1) -> None:
    environment.timers.schedule(
        (group.group_id, _PING, member.consumer_id),
        intervals * member.ping_interval_s,
        partial(_ping, environment, group, member),
    )


def _ping(environment: PushEnvironment, group: PushGroup, member: PushMember, state: GroupsState) -> Decided:
    if find_push_group(state, group.group_id) is not group or group.members.get(member.consumer_id) is not member:
        return NOTHING
    if member.connection is None:
        why = "it has not registered again within its session"
        return fail(state, environment, group, (member.consumer_id,), Loss.SILENT, why), None
    if member.pings_unanswered and environment.calls.is_behind(member.connection):
        ping_later(group, environment, member)
        return NOTHING
    failed = max(member.pings_unanswered - 1, 0)
    environment.tally.unanswered_pings += failed > 0
    if failed > environment.config.sluicegate_group_push_ping_retries_max:
        why = f"it did not respond to {failed} pings, each for two thirds of its session"
        return fail(state, environment, group, (member.consumer_id,), Loss.SILENT, why), None
    environment.tally.pings += 1
    environment.calls.send(member.connection, Ping(member.consumer_id, failed))
    member.pings_unanswered += 1
    ping_later(group, environment, member)
    return NOTHING


def await_return(group: PushGroup, environment: PushEnvironment, member: PushMember) -> None:
    """Wait for a consumer in the log to register again.

    The wait is as long as for a consumer that leaves pings unanswered.
    """
    ping_later(group, environment, member, environment.config.sluicegate_group_push_ping_retries_max + 3)
