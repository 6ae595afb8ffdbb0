"""Serve connections with waiting requests: round robin, for a bounded time in each iteration of the event loop. Shell.

A client may send thousands of requests at once. Some of them are answered, then the client goes to the end of the
queue. Between two passes the loop does its other work: other clients, timers, heartbeats, the controller.
"""

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from typing import Protocol

from broker_runtime.network.settings import HEAVY_S
from broker_runtime.slicing.slice_lengths import SliceLengths


class QueuedConnection(Protocol):
    """A connection whose complete requests wait for their time slice."""

    def run_slice(self) -> None:
        """Continue for a bounded time; a connection with more to do calls `TimeSlices.add` again."""
        ...

    def was_heavy(self) -> None:
        """Handle that its time slice blocked the event loop for HEAVY_S."""
        ...


def _nobody() -> bool:
    return False


class TimeSlices:
    """The queue of connections with waiting requests, served in passes. A pass ends after about `slice_s` seconds.

    One request may take much longer than a pass. If other connections wait (`others_wait`), which are served in short
    time slices, the next passes are skipped for as long as the pass was too long. Otherwise a few clients with heavy
    requests would take nearly all of the time.
    """

    __slots__ = ("_loop", "_now", "_others_wait", "_pause_until_s", "_queue", "_scheduled", "_slice_s", "lengths")

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
        self._queue: deque[QueuedConnection] = deque()
        self._scheduled = False
        self.lengths = SliceLengths("requests that waited")

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, waiting: QueuedConnection) -> None:
        """Queue `waiting`. Never runs it at once: the caller may be in the middle of another connection's pass."""
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
        stop_s = begin_s + self._slice_s
        queue = self._queue
        waiting: QueuedConnection | None = None
        try:
            while queue:
                waiting = queue.popleft()
                waiting.run_slice()
                began_s, now_s = now_s, self._now()
                if now_s - began_s >= HEAVY_S:
                    waiting.was_heavy()
                if now_s >= stop_s:
                    break
        finally:
            # Continue with the other connections even if one of them has raised.
            if queue:
                self._schedule()
            self._pause_until_s = now_s + (now_s - stop_s)
            self.lengths.note(now_s - begin_s, now_s, waiting)
