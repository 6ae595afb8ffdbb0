"""What concerns every member of a group is done in portions: each is a decision of its own, and others come between."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar

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
    return _Portions((group_id, object()), environment, iter(items), each, last).next()


class _Portions(Generic[T]):
    """The items that are left. It refers to nothing that refers to it, so that it goes with its last portion."""

    __slots__ = ("_each", "_environment", "_key", "_last", "_rest")

    def __init__(
        self,
        key: Hashable,
        environment: GroupEnvironment,
        rest: Iterator[T],
        each: Callable[[T], None],
        last: Callable[[], Records],
    ) -> None:
        self._key = key
        self._environment = environment
        self._rest = rest
        self._each = each
        self._last = last

    def next(self) -> Records:
        """Do one portion, and schedule the next one if there may be more items."""
        each, taken = self._each, 0
        for item in islice(self._rest, PORTION):
            each(item)
            taken += 1
        if taken == PORTION:
            self._environment.timers.schedule(self._key, 0.0, self._decide)
            return ()
        return self._last()

    def _decide(self, state: GroupsState) -> tuple[Records, None]:
        return self.next(), None
