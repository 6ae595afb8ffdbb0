"""What the coordinators of a process take of its event loop: one turn for all, whoever of them has something to decide.

Each with turns of its own would decide for a hundred milliseconds in a row, where there are fifty of them, and read the
sockets, which their requests come by, in between for two.
"""

import asyncio
from collections import deque

_TURN_S = 0.002
"""After which others have their turn."""


class DecidingTurns:
    """Who has begun decides until the time that it was given, and says when it ends; who comes too late waits."""

    def __init__(self) -> None:
        self._stop_s: float | None = None
        """Of the turn that is open; None before the first, and in a turn of the loop in which nobody has begun."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def begin(self) -> float:
        """When to stop, by the event loop's clock."""
        loop = asyncio.get_running_loop()
        if self._stop_s is None:
            return self._open(loop)
        if not self._waiting and loop.time() < self._stop_s:
            return self._stop_s
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        await turn
        if self._stop_s is None:
            return self._open(loop)
        # Where sockets have taken all of it, it has one all the same: it would wait as long as they are busy.
        if loop.time() >= self._stop_s:
            self._stop_s = loop.time() + _TURN_S
        return self._stop_s

    def end(self) -> None:
        """Who waits goes on, if there is time left."""
        if self._waiting and self._stop_s is not None and asyncio.get_running_loop().time() < self._stop_s:
            self._wake_one()

    def _open(self, loop: asyncio.AbstractEventLoop) -> float:
        self._stop_s = stop_s = loop.time() + _TURN_S
        loop.call_soon(self._next, loop)
        return stop_s

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Another turn of the event loop."""
        self._stop_s = None
        if self._waiting:
            self._open(loop)
            self._wake_one()

    def _wake_one(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
