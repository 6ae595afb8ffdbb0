"""Queue of refused connections that stay open for a while, so that their clients back off. Pure.

Earliest deadline first. (Apache Kafka's queue is ordered latest first, so under a steady stream of refusals it closes
nothing. This implementation does not have that bug.) The queue is bounded: beyond the limit a connection is closed at
once.
"""

from heapq import heappop, heappush


class DelayedCloses:
    """Descriptors to close later, at most `limit`, each with its closing time in milliseconds."""

    __slots__ = ("_heap", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heap: list[tuple[int, int]] = []

    def add(self, fd: int, close_at_ms: int) -> bool:
        """Schedule that the socket `fd` is closed at a time.

        Return False if the queue is full: the caller then closes `fd` now.
        """
        if len(self._heap) >= self._limit:
            return False
        heappush(self._heap, (close_at_ms, fd))
        return True

    def set_limit(self, limit: int) -> None:
        self._limit = limit

    def due(self, now_ms: int) -> list[int]:
        """Remove and return every descriptor whose deadline has passed."""
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
