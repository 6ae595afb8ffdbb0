"""StopFetcher and StartFetcher go to consumers in portions, and each has its time to answer. Pure."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from broker_runtime.coordination.seam import Deciding
from broker_runtime.groups.environment import GroupTimer
from broker_runtime.groups.push.calls import PushEnvironment, StartFetcher, StopFetcher
from broker_runtime.groups.push.group import PushGroup
from broker_runtime.groups.push.member import PushMember
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.state import GroupsState

_Decided = tuple[Sequence[GroupRecord], None]
CALL = "call"
"""Of the timer of a consumer that is to answer StopFetcher or StartFetcher."""
_ASK = "ask"
_PORTION = 50
"""To decide so many calls takes a third of a millisecond."""


def ask_awaited(group: PushGroup, environment: PushEnvironment, ask: Callable[[PushMember], None]) -> None:
    """Call `ask` for all members that are awaited now, except those that are not when their portion comes.

    Portions do not wait for other decisions: while thousands are pinged, each would have to wait for all of these.
    """
    rest = iter(list(group.awaited))
    environment.timers.go_on((group.group_id, _ASK), partial(_portion, group, environment, ask, group.step, rest))


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
        environment.timers.go_on((group.group_id, _ASK), partial(_portion, group, environment, ask, step, rest))
    return (), None


def call(
    group: PushGroup,
    environment: PushEnvironment,
    member: PushMember,
    what: StopFetcher | StartFetcher,
    when_late: GroupTimer,
) -> None:
    """Send `what`, and decide `when_late` if there is no answer after two thirds of the consumer's session.

    The wait begins anew while the coordinator itself is late with this connection.
    """
    assert member.connection is not None, "a group rebalances when all have registered"
    member.overdue = False
    environment.calls.send(member.connection, what)
    # It is not cancelled by the answer: to put off one for each of thousands leaves nothing to be swept.
    _look_later(group.group_id, environment, member, member.connection, when_late)


def _look_later(
    group_id: str, environment: PushEnvironment, member: PushMember, connection: int, when_late: GroupTimer
) -> None:
    look = partial(_look, group_id, environment, member, connection, when_late)
    environment.timers.schedule((group_id, CALL, member.consumer_id), member.answer_timeout_s, look)


def _look(
    group_id: str,
    environment: PushEnvironment,
    member: PushMember,
    connection: int,
    when_late: GroupTimer,
    state: GroupsState,
) -> Deciding[GroupRecord, None]:
    if member.owes_an_answer and environment.calls.is_behind(connection):
        _look_later(group_id, environment, member, connection, when_late)
        return (), None
    return when_late(state)
