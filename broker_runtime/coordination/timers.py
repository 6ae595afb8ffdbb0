"""Timers as data: what is to be done when, by key. Pure; who owns it reads the clock and waits."""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

A = TypeVar("A")

_GARBAGE_MAX = 64
"""Entries of timers that were cancelled or moved, beyond as many as there are timers, before they are swept out."""


class Timers(Generic[A]):
    """A key has one timer at most, so that keys bound their number."""

    def __init__(self) -> None:
        self._timers: dict[Hashable, tuple[float, int, A]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._last_number = 0

    def __contains__(self, key: object) -> bool:
        return key in self._timers

    def schedule(self, key: Hashable, due_s: float, action: A) -> None:
        """In the place of the key's timer, if it has one."""
        self._last_number += 1
        self._timers[key] = (due_s, self._last_number, action)
        heappush(self._heap, (due_s, self._last_number, key))
        self._sweep()

    def cancel(self, key: Hashable) -> None:
        self._timers.pop(key, None)
        self._sweep()

    def clear(self) -> None:
        self._timers.clear()
        self._heap.clear()

    def next_due_s(self) -> float | None:
        """When the first is due; None when there is none."""
        heap = self._heap
        while heap and not self._is_current(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def take_due(self, now_s: float) -> list[tuple[Hashable, A]]:
        """Those that are due, the earliest first; they are gone then."""
        taken = []
        while (due_s := self.next_due_s()) is not None and due_s <= now_s:
            key = heappop(self._heap)[2]
            taken.append((key, self._timers.pop(key)[2]))
        return taken

    def _is_current(self, entry: tuple[float, int, Hashable]) -> bool:
        timer = self._timers.get(entry[2])
        return timer is not None and timer[1] == entry[1]

    def _sweep(self) -> None:
        if len(self._heap) > 2 * len(self._timers) + _GARBAGE_MAX:
            self._heap = [(due_s, number, key) for key, (due_s, number, _) in self._timers.items()]
            heapify(self._heap)
