"""Whether the process that holds the lease has ended, which its host's kernel tells sooner than any time-out.

A controller on standby keeps one connection to the holder and sends nothing over it. When a process ends, however it
ends, its kernel closes what it had open and refuses whoever connects. So a connection that was there and ended, and
then a host that refuses, say that the process is gone; a host that does not answer says nothing. It may be wrong all
the same (something between the two that resets and refuses), so what follows from it must be safe without it.
"""

import asyncio
import logging

log = logging.getLogger(__name__)

_RETRY_DELAY_S = 0.1
_RETRY_DELAY_MAX_S = 1.0
_REFUSALS = 2
"""In a row. A process that stops in good order closes its port first, and has a moment to release the lease itself."""


class HolderWatch:
    """Watches one holder at a time. Everything it knows is soft: a new process begins with nothing."""

    def __init__(self, connect_timeout_s: float) -> None:
        self.news = asyncio.Event()
        """The holder's connection has ended, or the holder is gone. Whoever waits clears it."""
        self.gone = ""
        """The holder whose process has ended; empty while that of the one that is watched may run."""
        self._connect_timeout_s = connect_timeout_s
        self._holder = ""
        self._lost_s: float | None = None
        """Since when there is no connection, if there was one."""
        self._watching: asyncio.Task[None] | None = None

    async def follow(self, holder: str, address: str) -> None:
        """`address` is host:port; without one nothing is known of the holder but its lease."""
        if self._watching is not None and self._watching.done():
            # It returns when the holder is gone, and raises only what nobody foresaw.
            self._watching.result()
        if holder == self._holder:
            return
        await self.stop()
        self._holder = holder
        if holder and address:
            host, _, port = address.rpartition(":")
            self._watching = asyncio.ensure_future(self._watch(holder, host.strip("[]"), int(port)))

    def lost_within(self, seconds: float) -> bool:
        """There was a connection and there is none since a moment ago: it is worth looking at the lease often."""
        return self._lost_s is not None and asyncio.get_running_loop().time() - self._lost_s < seconds

    async def stop(self) -> None:
        """Forgets what was known."""
        watching, self._watching = self._watching, None
        self._holder = self.gone = ""
        self._lost_s = None
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, holder: str, host: str, port: int) -> None:
        refusals, delay_s = 0, _RETRY_DELAY_S
        while refusals < _REFUSALS:
            try:
                connection = await self._connect(host, port)
            except ConnectionRefusedError:
                # One that was never connected may have another address than it says.
                refusals += self._lost_s is not None
            except (OSError, TimeoutError):
                refusals = 0
            else:
                refusals, self._lost_s = 0, None
                lasted_s = await connection.wait_until_lost()
                self._lost_s = asyncio.get_running_loop().time()
                self.news.set()
                if lasted_s >= _RETRY_DELAY_MAX_S:
                    delay_s = _RETRY_DELAY_S
                    continue
            await asyncio.sleep(delay_s)
            delay_s = _RETRY_DELAY_S if refusals else min(2 * delay_s, _RETRY_DELAY_MAX_S)
        log.info("the process of controller %s has ended: %s:%d refuses connections", holder, host, port)
        self.gone = holder
        self.news.set()

    async def _connect(self, host: str, port: int) -> "_Connection":
        """Raises OSError, TimeoutError."""
        async with asyncio.timeout(self._connect_timeout_s):
            _, connection = await asyncio.get_running_loop().create_connection(_Connection, host, port)
        return connection


class _Connection(asyncio.Protocol):
    """Nothing is said on it."""

    def __init__(self) -> None:
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)

    async def wait_until_lost(self) -> float:
        """How long it was there, in seconds."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            await self._lost
        finally:
            assert self._transport is not None
            self._transport.close()
        return loop.time() - began_s
