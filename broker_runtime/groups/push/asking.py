"""StopFetcher and StartFetcher go to consumers in portions, and each has its time to answer. Pure."""

from collections.abc import Callable

from broker_runtime.groups.classic.portions import in_portions
from broker_runtime.groups.environment import GroupTimer
from broker_runtime.groups.push.calls import PushEnvironment, StartFetcher, StopFetcher
from broker_runtime.groups.push.group import PushGroup
from broker_runtime.groups.push.member import PushMember

_CALL = "call"


def ask_awaited(group: PushGroup, environment: PushEnvironment, ask: Callable[[PushMember], None]) -> None:
    """All that are awaited now; those are left out of whom nothing is awaited any more when their portion comes."""
    step = group.step

    def each(consumer_id: str) -> None:
        if group.step == step and consumer_id in group.awaited:
            ask(group.members[consumer_id])

    in_portions(group.group_id, environment, list(group.awaited), each)


def call(
    group: PushGroup,
    environment: PushEnvironment,
    member: PushMember,
    what: StopFetcher | StartFetcher,
    when_late: GroupTimer,
) -> None:
    """`when_late` is decided where the answer has not come after two thirds of the consumer's session."""
    assert member.connection is not None, "a group rebalances when all have registered"
    member.overdue = False
    environment.calls.send(member.connection, what)
    # It is not cancelled by the answer: to put off one for each of thousands leaves nothing to be swept.
    environment.timers.schedule((group.group_id, _CALL, member.consumer_id), member.answer_timeout_s, when_late)
