"""Connections with TLS that are being closed: both sides announce the end, and the event loop has to run meanwhile."""

import asyncio
from contextlib import suppress

_CLOSE_S = 1.0
"""Time for the other side to announce the end; the socket is then closed without it."""


class ClosingConnections:
    """The tasks that wait for the ends of closed connections. Each takes `_CLOSE_S` at most."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

    def add(self, writer: asyncio.StreamWriter) -> None:
        """Wait for the end of a closed writer from now on."""
        if writer not in self._tasks:
            self._tasks[writer] = task = asyncio.create_task(_end(writer))
            task.add_done_callback(lambda _: self._tasks.pop(writer, None))

    async def wait(self) -> None:
        """Wait until all closing connections are closed."""
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))


async def _end(writer: asyncio.StreamWriter) -> None:
    # OSError: the connection has ended by an error.
    with suppress(OSError):
        try:
            async with asyncio.timeout(_CLOSE_S):
                await writer.wait_closed()
        finally:
            writer.transport.abort()
