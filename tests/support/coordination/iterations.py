"""Counts the iterations of the event loop, to see what runs without a break."""

import asyncio


class Iterations:
    """The number of iterations of the running event loop, from its creation to `stop`."""

    def __init__(self) -> None:
        self.count = 0
        self._tick()

    def _tick(self) -> None:
        self.count += 1
        self._next = asyncio.get_running_loop().call_soon(self._tick)

    def stop(self) -> None:
        self._next.cancel()
