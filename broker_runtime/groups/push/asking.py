"""Sends StopFetcher and StartFetcher to consumers in portions, and limits the time for each answer. Pure."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from broker_runtime.coordination.seam import Deciding
from broker_runtime.groups.environment import GroupTimer
from broker_runtime.groups.push.state.calls import PushEnvironment, StartFetcher, StopFetcher
from broker_runtime.groups.push.state.group import PushGroup
from broker_runtime.groups.push.state.member import PushMember
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.state import GroupsState

_Decided = tuple[Sequence[GroupRecord], None]
CALL = "call"
"""Kind of the timer for a consumer's answer to StopFetcher or StartFetcher."""
_ASK = "ask"
_PORTION = 50
"""Calls of one portion: deciding them takes a third of a millisecond."""


def ask_awaited(group: PushGroup, environment: PushEnvironment, ask: Callable[[PushMember], None]) -> None:
    """Call `ask` for each member whose answer is awaited, in portions; skip members that are no longer awaited by then.

    Portions do not wait for other decisions: while thousands are pinged, each portion would wait for all of the pings.
    """
    rest = iter(list(group.awaited))
    environment.timers.continue_with(
        (group.group_id, _ASK), partial(_portion, group, environment, ask, group.step, rest)
    )


def _portion(
    group: PushGroup,
    environment: PushEnvironment,
    ask: Callable[[PushMember], None],
    step: int,
    rest: Iterator[str],
    _: GroupsState,
) -> _Decided:
    some = list(islice(rest, _PORTION))
    if some and group.step == step:
        for consumer_id in some:
            if consumer_id in group.awaited:
                ask(group.members[consumer_id])
        environment.timers.continue_with((group.group_id, _ASK), partial(_portion, group, environment, ask, step, rest))
    return (), None


def call(
    group: PushGroup,
    environment: PushEnvironment,
    member: PushMember,
    what: StopFetcher | StartFetcher,
    when_late: GroupTimer,
) -> None:
    """Send a call to the consumer. If its answer does not come within two thirds of its session, decide `when_late`.

    The wait starts again while the coordinator itself is late with this connection.
    """
    assert member.connection is not None, "a group rebalances when all have registered"
    member.overdue = False
    environment.calls.send(member.connection, what)
    # The answer does not cancel the timer: rescheduling a timer for each of thousands of consumers leaves no dead ones.
    _check_later(group.group_id, environment, member, member.connection, when_late)


def _check_later(
    group_id: str, environment: PushEnvironment, member: PushMember, connection: int, when_late: GroupTimer
) -> None:
    check = partial(_check, group_id, environment, member, connection, when_late)
    environment.timers.schedule((group_id, CALL, member.consumer_id), member.answer_timeout_s, check)


def _check(
    group_id: str,
    environment: PushEnvironment,
    member: PushMember,
    connection: int,
    when_late: GroupTimer,
    state: GroupsState,
) -> Deciding[GroupRecord, None]:
    if member.owes_an_answer and environment.calls.is_behind(connection):
        _check_later(group_id, environment, member, connection, when_late)
        return (), None
    return when_late(state)
