"""Names of what is to be told, the newest first; each is in it once, however often it was added."""

import heapq
from collections.abc import Iterator

Rank = tuple[bool, float]
"""What is smaller comes first."""


class NewestFirst:
    """`add` with another rank moves a name. Bounded by the number of names that there are."""

    def __init__(self) -> None:
        self._ranks: dict[str, Rank] = {}
        self._heap: list[tuple[Rank, str]] = []

    def __len__(self) -> int:
        return len(self._ranks)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._ranks))

    def add(self, name: str, rank: Rank) -> None:
        if self._ranks.get(name) != rank:
            self._ranks[name] = rank
            heapq.heappush(self._heap, (rank, name))
        if len(self._heap) > 2 * len(self._ranks) + 16:
            self._heap = [(rank, name) for name, rank in self._ranks.items()]
            heapq.heapify(self._heap)

    def take(self) -> str | None:
        while self._heap:
            rank, name = heapq.heappop(self._heap)
            if self._ranks.get(name) == rank:
                del self._ranks[name]
                return name
        return None
