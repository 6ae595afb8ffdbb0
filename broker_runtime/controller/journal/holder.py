"""Detect that the process that holds the lease has ended: its host's kernel reports that sooner than any timeout.

A standby controller keeps one connection to the holder and sends nothing over it. When a process ends, for whatever
reason, its kernel closes its connections and refuses new ones. So an established connection that ended, followed by
refused ones, means that the process has ended. A host that does not answer gives no information. The conclusion may be
wrong (a middlebox may reset and refuse), so its consequences must be safe without it.
"""

import asyncio
import logging

log = logging.getLogger(__name__)

_RETRY_DELAY_S = 0.1
_RETRY_DELAY_MAX_S = 1.0
_REFUSALS = 2
"""Refusals in a row. A process that stops cleanly closes its port first, then has time to release the lease."""


class HolderWatch:
    """Watches the process that holds the lease, one at a time.

    All state is soft: a new process begins without any.
    """

    def __init__(self, connect_timeout_s: float) -> None:
        self.news = asyncio.Event()
        """Set when the holder's connection or process has ended. The waiting task clears it."""
        self.gone = ""
        """The holder whose process has ended; empty while the watched holder may be running."""
        self._connect_timeout_s = connect_timeout_s
        self._holder = ""
        self._lost_s: float | None = None
        """Time since which there is no connection, if there was one."""
        self._watching: asyncio.Task[None] | None = None

    async def follow(self, holder: str, address: str) -> None:
        """Watch the controller that holds the lease, at `address` (host:port).

        Without an address, only its lease tells whether the holder runs.
        """
        if self._watching is not None and self._watching.done():
            # The task returns when the holder is gone; it raises only unexpected errors.
            self._watching.result()
        if holder == self._holder:
            return
        await self.stop()
        self._holder = holder
        if holder and address:
            host, _, port = address.rpartition(":")
            self._watching = asyncio.ensure_future(self._watch(holder, host.strip("[]"), int(port)))

    def lost_within(self, seconds: float) -> bool:
        """Return whether a connection to the holder was lost within the last `seconds`.

        If so, polling the lease often is worthwhile.
        """
        return self._lost_s is not None and asyncio.get_running_loop().time() - self._lost_s < seconds

    async def stop(self) -> None:
        """Stop watching the holder, and reset the state."""
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
                # An address that never accepted a connection may not be the holder's.
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
        """Connect to the address. Raises OSError, TimeoutError."""
        async with asyncio.timeout(self._connect_timeout_s):
            _, connection = await asyncio.get_running_loop().create_connection(_Connection, host, port)
        return connection


class _Connection(asyncio.Protocol):
    """A connection over which nothing is sent."""

    def __init__(self) -> None:
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)

    async def wait_until_lost(self) -> float:
        """Return how long the connection lasted, in seconds."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            await self._lost
        finally:
            assert self._transport is not None
            self._transport.close()
        return loop.time() - began_s
