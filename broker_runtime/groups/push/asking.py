"""StopFetcher and StartFetcher go to consumers in portions, and each has its time to answer. Pure."""

from collections.abc import Callable, Sequence
from itertools import islice

from broker_runtime.groups.environment import GroupTimer
from broker_runtime.groups.push.calls import PushEnvironment, StartFetcher, StopFetcher
from broker_runtime.groups.push.group import PushGroup
from broker_runtime.groups.push.member import PushMember
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.state import GroupsState

_CALL, _ASK = "call", "ask"
_PORTION = 50
"""To decide so many calls takes a third of a millisecond."""


def ask_awaited(group: PushGroup, environment: PushEnvironment, ask: Callable[[PushMember], None]) -> None:
    """All that are awaited now; those are left out of whom nothing is awaited any more when their portion comes.

    Portions do not wait for others: where thousands are pinged meanwhile, each would have to wait for all of these.
    """
    step, rest = group.step, iter(list(group.awaited))

    def portion(_: GroupsState) -> tuple[tuple[GroupRecord, ...], None]:
        some = list(islice(rest, _PORTION))
        if some and group.step == step:
            for consumer_id in some:
                if consumer_id in group.awaited:
                    ask(group.members[consumer_id])
            environment.timers.go_on((group.group_id, _ASK), portion)
        return (), None

    environment.timers.go_on((group.group_id, _ASK), portion)


def call(
    group: PushGroup,
    environment: PushEnvironment,
    member: PushMember,
    what: StopFetcher | StartFetcher,
    when_late: GroupTimer,
) -> None:
    """`when_late` is decided where the answer has not come after two thirds of the consumer's session, in which the
    coordinator itself was not late."""
    assert member.connection is not None, "a group rebalances when all have registered"
    member.overdue = False
    key, connection = (group.group_id, _CALL, member.consumer_id), member.connection

    def look(state: GroupsState) -> tuple[Sequence[GroupRecord], None]:
        if member.owes_an_answer and environment.calls.is_behind(connection):
            environment.timers.schedule(key, member.answer_timeout_s, look)
            return (), None
        return when_late(state)

    environment.calls.send(connection, what)
    # It is not cancelled by the answer: to put off one for each of thousands leaves nothing to be swept.
    environment.timers.schedule(key, member.answer_timeout_s, look)
