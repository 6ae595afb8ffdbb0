"""The share of the event loop that coordinators get: one time slice for all coordinators of a process.

With a slice each, fifty coordinators would decide for 100 ms in a row. Between these periods the loop would read the
sockets, through which their requests arrive, for only 2 ms.
"""

import asyncio
from collections import deque

_SLICE_S = 0.002
"""Length of a time slice, after which other tasks run."""


class DecidingSlices:
    """Time slices in which the coordinators of a process decide.

    A coordinator calls `begin`, decides until the returned time, and calls `end`. If the slice is used up, `begin`
    waits for the next one.
    """

    def __init__(self) -> None:
        self._stop_s: float | None = None
        """End of the open slice. None before the first slice, and after a loop iteration in which none was begun."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def begin(self) -> float:
        """Wait for a time slice in which a coordinator decides.

        Returns when to stop, in seconds of the event loop's clock.
        """
        loop = asyncio.get_running_loop()
        if self._stop_s is None:
            return self._open(loop)
        if not self._waiting and loop.time() < self._stop_s:
            return self._stop_s
        time_slice: asyncio.Future[None] = loop.create_future()
        self._waiting.append(time_slice)
        await time_slice
        if self._stop_s is None:
            return self._open(loop)
        # If socket I/O has used up the slice, this coordinator gets a new one. Otherwise it would wait for as long as
        # the sockets are busy.
        if loop.time() >= self._stop_s:
            self._stop_s = loop.time() + _SLICE_S
        return self._stop_s

    def end(self) -> None:
        """Let the next waiting coordinator decide, if the slice has time left."""
        if self._waiting and self._stop_s is not None and asyncio.get_running_loop().time() < self._stop_s:
            self._wake_one()

    def _open(self, loop: asyncio.AbstractEventLoop) -> float:
        self._stop_s = stop_s = loop.time() + _SLICE_S
        loop.call_soon(self._next, loop)
        return stop_s

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the slice, in the next iteration of the event loop, and open another if a coordinator waits."""
        self._stop_s = None
        if self._waiting:
            self._open(loop)
            self._wake_one()

    def _wake_one(self) -> None:
        while self._waiting:
            time_slice = self._waiting.popleft()
            if not time_slice.done():
                time_slice.set_result(None)
                return
