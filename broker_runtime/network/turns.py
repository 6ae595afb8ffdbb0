"""Whose complete requests wait goes on here: round robin, for a bounded time in each turn of the event loop. Shell.

A client may send thousands of requests at once. It gets some of them answered and goes to the end of the queue, and
between two turns the loop serves everybody else: other clients, timers, heartbeats, the controller.
"""

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from typing import Protocol

from broker_runtime.network.settings import HEAVY_S
from broker_runtime.turn_lengths import TurnLengths


class Waiting(Protocol):
    """A connection whose complete requests wait for their turn."""

    def take_turn(self) -> None:
        """Go on for a bounded time; whoever has more to do then calls `Turns.add` again."""
        ...

    def was_heavy(self) -> None:
        """Its turn has held the event loop for HEAVY_S."""
        ...


def _nobody() -> bool:
    return False


class Turns:
    """`now` gives seconds; a turn ends after the first member that goes on for longer than `turn_s` from its start.

    One request may take much longer than a turn. While others wait (`others_wait`), who are served in short turns, the
    time is then theirs for as long as it was too long: else a few clients with heavy requests would have nearly all.
    """

    __slots__ = ("_loop", "_now", "_others_wait", "_pause_until_s", "_queue", "_scheduled", "_turn_s", "lengths")

    def __init__(
        self,
        loop: AbstractEventLoop,
        now: Callable[[], float],
        turn_s: float,
        others_wait: Callable[[], bool] = _nobody,
    ) -> None:
        self._loop = loop
        self._now = now
        self._turn_s = turn_s
        self._others_wait = others_wait
        self._pause_until_s = float("-inf")
        self._queue: deque[Waiting] = deque()
        self._scheduled = False
        self.lengths = TurnLengths("requests that waited")

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, waiting: Waiting) -> None:
        """Never runs `waiting` at once: the caller may be in the middle of another connection's pass."""
        self._queue.append(waiting)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        begin_s = now_s = self._now()
        if begin_s < self._pause_until_s and self._others_wait():
            self._schedule()
            return
        stop_s = begin_s + self._turn_s
        queue = self._queue
        waiting: Waiting | None = None
        try:
            while queue:
                waiting = queue.popleft()
                waiting.take_turn()
                began_s, now_s = now_s, self._now()
                if now_s - began_s >= HEAVY_S:
                    waiting.was_heavy()
                if now_s >= stop_s:
                    break
        finally:
            # Also when one of them has failed.
            if queue:
                self._schedule()
            self._pause_until_s = now_s + (now_s - stop_s)
            self.lengths.note(now_s - begin_s, now_s, waiting)
