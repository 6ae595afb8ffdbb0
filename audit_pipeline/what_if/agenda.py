"""What happens next in a replay: the events of virtual time in their order. Pure."""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

Happening = tuple[int, int, int, int, Any]
"""An event of virtual time.

The items are the time in microseconds, the number in the log, the kind, a number that no other event has, and the
details of the kind.
"""


class Agenda:
    """The events that are to come, by time. Events of one microsecond keep the order of their numbers in the log."""

    def __init__(self) -> None:
        self._heap: list[Happening] = []
        self._planned = 0

    def plan(self, at_us: int, seq: int, kind: int, about: Any) -> None:
        """Add an event. `seq` is its number in the log, and `about` has the details of its kind."""
        self._planned += 1
        heappush(self._heap, (at_us, seq, kind, self._planned, about))

    def before(self, place: tuple[int, ...]) -> Iterator[Happening]:
        """Take the events before a time, or before a time and a number in the log, also those planned meanwhile."""
        heap = self._heap
        while heap and heap[0] < place:
            yield heappop(heap)
