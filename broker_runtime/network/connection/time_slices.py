"""Serve connections with waiting requests, for a bounded time in each iteration of the event loop. Shell.

A client may send thousands of requests at once. Some of them are answered, then the client waits in the queue again.
Between two passes the loop does its other work: other clients, timers, heartbeats, the controller.

A connection is due some time after it was queued, and the connection that is due first is served first. That time is a
multiple of the time that its last long request took. So a client whose requests take 0.3 ms is served before a hundred
clients whose requests take 1 ms. None waits for ever, because a connection that is queued later is due later.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from broker_runtime.network.settings import HEAVY_S
from broker_runtime.slicing.slice_lengths import SliceLengths

_DUE_AFTER = 200
"""Seconds until a connection is due, for each second that its last long request took."""
_DUE_AFTER_MAX_S = 2.0
"""The longest time until a connection is due."""


class QueuedConnection(Protocol):
    """A connection whose complete requests wait for their time slice."""

    @property
    def heavy_s(self) -> float:
        """Return how long its last long request kept the event loop busy, in seconds; 0 without such a request."""
        ...

    def run_slice(self) -> None:
        """Continue for a bounded time; a connection with more to do calls `TimeSlices.add` again."""
        ...

    def was_heavy(self, length_s: float) -> None:
        """Receive the notification that the last time slice blocked the event loop for `length_s`, at least HEAVY_S."""
        ...


def _nobody() -> bool:
    return False


class TimeSlices:
    """The queue of connections with waiting requests, served in passes. A pass ends after about `slice_s` seconds.

    A single request may make a pass much longer. Then no pass begins for as long as that pass was too long, if
    connections with short requests wait (`others_wait`). Otherwise a few clients with heavy requests would take nearly
    all of the time.
    """

    __slots__ = (
        "_loop",
        "_now",
        "_numbers",
        "_others_wait",
        "_pause_until_s",
        "_queue",
        "_scheduled",
        "_slice_s",
        "lengths",
    )

    def __init__(
        self,
        loop: AbstractEventLoop,
        now: Callable[[], float],
        slice_s: float,
        others_wait: Callable[[], bool] = _nobody,
    ) -> None:
        self._loop = loop
        self._now = now
        self._slice_s = slice_s
        self._others_wait = others_wait
        self._pause_until_s = float("-inf")
        self._queue: list[tuple[float, int, QueuedConnection]] = []
        """A heap of waiting connections, each with the time when it is due and the number of its entry."""
        self._numbers = count()
        self._scheduled = False
        self.lengths = SliceLengths("requests that waited")

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, waiting: QueuedConnection) -> None:
        """Queue `waiting`, which never runs at once: the caller may be in the middle of another connection's pass."""
        due_s = self._now() + min(_DUE_AFTER * waiting.heavy_s, _DUE_AFTER_MAX_S)
        heappush(self._queue, (due_s, next(self._numbers), waiting))
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
        stop_s = begin_s + self._slice_s
        queue = self._queue
        waiting: QueuedConnection | None = None
        try:
            while queue:
                _, _, waiting = heappop(queue)
                waiting.run_slice()
                began_s, now_s = now_s, self._now()
                if now_s - began_s >= HEAVY_S:
                    waiting.was_heavy(now_s - began_s)
                if now_s >= stop_s:
                    break
        finally:
            # Continue with the other connections even if one of them has raised.
            if queue:
                self._schedule()
            self._pause_until_s = now_s + (now_s - stop_s)
            self.lengths.note(now_s - begin_s, now_s, waiting)
