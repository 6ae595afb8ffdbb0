"""Sockets of refused clients, kept open for a while so that the clients back off (`delayed_closes`). Shell."""

import os
import socket
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable

from broker_runtime.network.sockets.delayed_closes import DelayedCloses

_CLOSES_PER_SLICE = 100
"""Closing one takes some 10 microseconds."""


class RefusedSockets:
    """Refused sockets as bare descriptors, each closed at its time. `now` returns seconds."""

    __slots__ = ("_closes", "_ending", "_loop", "_now", "_timer", "_timer_ms")

    def __init__(self, loop: AbstractEventLoop, now: Callable[[], float], limit: int) -> None:
        self._loop = loop
        self._now = now
        self._closes = DelayedCloses(limit)
        self._ending: deque[int] = deque()
        self._timer: TimerHandle | None = None
        self._timer_ms = 0

    def __len__(self) -> int:
        return len(self._closes)

    def set_limit(self, limit: int) -> None:
        self._closes.set_limit(limit)

    def add(self, refused: socket.socket, close_at_ms: int) -> None:
        """Close the socket at `close_at_ms`, or at once beyond the limit."""
        if self._closes.add(refused.fileno(), close_at_ms):
            refused.detach()
            self._arm(close_at_ms)
        else:
            refused.close()

    def _arm(self, at_ms: int) -> None:
        if self._timer is not None:
            if self._timer_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_ms = at_ms
        # Event loop timers have millisecond resolution and may fire slightly early: 1 ms more avoids a second wait.
        self._timer = self._loop.call_later(max(at_ms + 1 - self._now() * 1000, 0) / 1000, self._close_due)

    def _close_due(self) -> None:
        self._timer = None
        for fd in self._closes.due(int(self._now() * 1000)):
            os.close(fd)
        if self._closes.next_ms is not None:
            self._arm(self._closes.next_ms)

    def close_all(self) -> None:
        """Close all sockets over several iterations of the event loop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._ending.extend(self._closes.take_all())
        self._end_some()

    def _end_some(self) -> None:
        for _ in range(min(len(self._ending), _CLOSES_PER_SLICE)):
            os.close(self._ending.popleft())
        if self._ending:
            self._loop.call_soon(self._end_some)
