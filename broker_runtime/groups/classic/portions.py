"""Splits work about all members of a group into portions: each is a decision of its own, and others run in between."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar

from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.state import GroupsState

T = TypeVar("T")
Records = Sequence[GroupRecord]

PORTION = 50
"""Number of items of one portion, which takes a few milliseconds: each answer wakes a task that writes it."""


def in_portions(
    group_id: str,
    environment: GroupEnvironment,
    items: Iterable[T],
    each: Callable[[T], None],
    last: Callable[[], Records] = lambda: (),
) -> Records:
    """Process the first portion of the items immediately, and schedule the others.

    `each` must check whether its item is still relevant. `last` is called after the last item and returns records to
    write. This function returns these records if the first portion was the only one.
    """
    return _Portions((group_id, object()), environment, iter(items), each, last).next()


class _Portions(Generic[T]):
    """The remaining items. The object is not part of a reference cycle, so that it is freed with its last portion."""

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
        """Process one portion, and schedule the next one if there may be more items."""
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
