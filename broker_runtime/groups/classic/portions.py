"""What concerns every member of a group is done in portions: each is a decision of its own, and others come between."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.state import GroupsState

T = TypeVar("T")
Records = Sequence[GroupRecord]

PORTION = 50
"""Each answer that a portion gives wakes a task, which writes it: so many take a few milliseconds."""


def in_portions(
    group_id: str,
    environment: GroupEnvironment,
    items: Iterable[T],
    each: Callable[[T], None],
    last: Callable[[], Records] = lambda: (),
) -> Records:
    """The first portion at once. `each` looks whether its item still means anything. `last` comes after the last item;
    what it wants to be written is, and is returned here where the first portion was all."""
    rest = iter(items)
    key: Hashable = (group_id, object())

    def portion() -> Records:
        taken = 0
        for item in islice(rest, PORTION):
            each(item)
            taken += 1
        if taken == PORTION:
            environment.timers.schedule(key, 0.0, go_on)
            return ()
        return last()

    def go_on(state: GroupsState) -> tuple[Records, None]:
        return portion(), None

    return portion()
