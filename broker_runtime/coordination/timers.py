"""Timers as data: due times and actions by key. Pure: the owner reads the clock and waits."""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

A = TypeVar("A")

_GARBAGE_MAX = 64
"""The heap is rebuilt when its stale entries (of timers cancelled or moved forward) exceed the timers by this many."""

_ENTRIES_A_LOOK = 500
"""Heap entries examined per iteration of the event loop. Each takes some microseconds, including the action if due."""


class Timers(Generic[A]):
    """A heap of timers with at most one timer per key, so that the number of keys bounds the number of timers.

    A postponed timer keeps its heap entry until that entry is first in the heap. This makes it cheap to postpone a
    session timeout at each heartbeat.
    """

    def __init__(self) -> None:
        self._timers: dict[Hashable, tuple[float, int, A]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._places: dict[Hashable, tuple[float, int]] = {}
        """Due time and number of each timer's heap entry, which is never later than the timer."""
        self._last_number = 0

    def __contains__(self, key: object) -> bool:
        return key in self._timers

    def schedule(self, key: Hashable, due_s: float, action: A) -> None:
        """Set the key's timer, and replace the previous one."""
        self._last_number += 1
        self._timers[key] = (due_s, self._last_number, action)
        place = self._places.get(key)
        if place is None or due_s < place[0]:
            self._put(key, due_s, self._last_number)
            self._sweep()

    def cancel(self, key: Hashable) -> None:
        if self._timers.pop(key, None) is not None:
            del self._places[key]
            self._sweep()

    def clear(self) -> None:
        self._timers.clear()
        self._places.clear()
        self._heap.clear()

    def next_due_s(self) -> float | None:
        """Return the due time of the first timer, or None without timers.

        The time may be too early if very many timers were postponed.
        """
        heap = self._heap
        for _ in range(_ENTRIES_A_LOOK):
            if not heap:
                return None
            due_s, number, key = heap[0]
            if self._places.get(key) != (due_s, number):
                heappop(heap)
                continue
            timer = self._timers[key]
            if timer[1] == number:
                return due_s
            heappop(heap)
            self._put(key, timer[0], timer[1])
        return heap[0][0] if heap else None

    def take_due(self, now_s: float) -> list[tuple[Hashable, A]]:
        """Remove and return due timers, earliest first. If very many are due, return only some of them."""
        heap, taken = self._heap, []
        for _ in range(_ENTRIES_A_LOOK):
            if not heap or heap[0][0] > now_s:
                break
            due_s, number, key = heappop(heap)
            if self._places.get(key) != (due_s, number):
                continue
            timer = self._timers[key]
            if timer[1] == number:
                del self._places[key], self._timers[key]
                taken.append((key, timer[2]))
            else:
                self._put(key, timer[0], timer[1])
        return taken

    def _put(self, key: Hashable, due_s: float, number: int) -> None:
        self._places[key] = (due_s, number)
        heappush(self._heap, (due_s, number, key))

    def _sweep(self) -> None:
        if len(self._heap) > 2 * len(self._timers) + _GARBAGE_MAX:
            self._heap = [(due_s, number, key) for key, (due_s, number) in self._places.items()]
            heapify(self._heap)
