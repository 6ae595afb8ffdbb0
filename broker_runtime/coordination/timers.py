"""Timers as data: what is to be done when, by key. Pure; who owns it reads the clock and waits."""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

A = TypeVar("A")

_GARBAGE_MAX = 64
"""Entries of cancelled timers, and those brought forward, beyond as many as there are timers, before they are swept."""

_ENTRIES_A_LOOK = 500
"""As many are looked at in one turn of the loop: some microseconds each, with what is done for one that is due."""


class Timers(Generic[A]):
    """A key has one timer at most, so that keys bound their number.

    What is put off keeps its place in the heap until that comes up: each heartbeat puts off the end of a session.
    """

    def __init__(self) -> None:
        self._timers: dict[Hashable, tuple[float, int, A]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._places: dict[Hashable, tuple[float, int]] = {}
        """Of each timer that of its entry in the heap, which is no later than itself."""
        self._last_number = 0

    def __contains__(self, key: object) -> bool:
        return key in self._timers

    def schedule(self, key: Hashable, due_s: float, action: A) -> None:
        """In the place of the key's timer, if it has one."""
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
        """When the first is due; None when there is none. Where very many were put off it may be too early."""
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
        """Those that are due, the earliest first; they are gone then. Of very many some: others are still due."""
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
