"""Refused connections that are held open for a while, so that their clients back off: which to close, and when. Pure.

Earliest deadline first. (Apache Kafka's queue is ordered latest first, so that under a steady stream of refusals
nothing is closed: a bug we do not share.) Bounded: beyond the limit a connection is closed at once.
"""

from heapq import heappop, heappush


class DelayedCloses:
    """At most `limit` descriptors, each with the time at which it is to be closed, in milliseconds."""

    __slots__ = ("_heap", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heap: list[tuple[int, int]] = []

    def add(self, fd: int, close_at_ms: int) -> bool:
        """False when there is no room: close `fd` now."""
        if len(self._heap) >= self._limit:
            return False
        heappush(self._heap, (close_at_ms, fd))
        return True

    def set_limit(self, limit: int) -> None:
        self._limit = limit

    def due(self, now_ms: int) -> list[int]:
        """Take out every connection whose deadline has come."""
        fds = []
        while self._heap and self._heap[0][0] <= now_ms:
            fds.append(heappop(self._heap)[1])
        return fds

    @property
    def next_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def take_all(self) -> list[int]:
        fds = [fd for _, fd in self._heap]
        self._heap.clear()
        return fds

    def __len__(self) -> int:
        return len(self._heap)
