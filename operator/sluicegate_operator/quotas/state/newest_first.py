"""A queue of names, the newest first. A name is in it at most once.

Every `OLDEST_EVERY`th `take` returns the name that has waited longest. So each name leaves the queue even if new names
come faster than names are taken.
"""

import heapq

Rank = tuple[bool, float]
"""A smaller rank comes first."""

OLDEST_EVERY = 4


class NewestFirst:
    """A queue of the names of quotas whose status is due. It returns the newest first, and now and then the oldest.

    `add` with another rank moves a name. The number of distinct names bounds its size.
    """

    def __init__(self) -> None:
        self._ranks: dict[str, Rank] = {}
        """Ranks by name, in the order in which the names began to wait."""
        self._heap: list[tuple[Rank, str]] = []
        self._taken = 0

    def __len__(self) -> int:
        return len(self._ranks)

    def add(self, name: str, rank: Rank) -> None:
        if self._ranks.get(name) != rank:
            self._ranks[name] = rank
            heapq.heappush(self._heap, (rank, name))
        if len(self._heap) > 2 * len(self._ranks) + 16:
            self._heap = [(rank, name) for name, rank in self._ranks.items()]
            heapq.heapify(self._heap)

    def take(self) -> str | None:
        if not self._ranks:
            self._heap.clear()
            return None
        self._taken += 1
        name = next(iter(self._ranks)) if self._taken % OLDEST_EVERY == 0 else self._newest()
        del self._ranks[name]
        return name

    def _newest(self) -> str:
        while True:
            rank, name = heapq.heappop(self._heap)
            if self._ranks.get(name) == rank:
                return name
