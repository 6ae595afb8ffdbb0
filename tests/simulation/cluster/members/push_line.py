"""A connection on which a coordinator calls a consumer, from the consumer's side: frames arrive unrequested as well."""

import asyncio
import struct
from collections import deque
from typing import Any

from kafka_bytes.push.layouts import Layout
from tests.simulation.cluster.connection import Address
from tests.simulation.cluster.machine.network import Transport

_SIZE = struct.Struct(">i")


class LineLost(Exception):  # noqa: N818 - what happened, and usual
    """The connection has ended, or could not be opened."""


class Line(asyncio.Protocol):
    """The consumer's end of the connection; made by `open_line`."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._buffer = bytearray()
        self._frames: deque[bytes] = deque()
        self._lost = False
        self._news = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4 and len(self._buffer) >= (end := 4 + _SIZE.unpack_from(self._buffer)[0]):
            self._frames.append(bytes(self._buffer[4:end]))
            del self._buffer[:end]
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._news.set()

    def send(self, layout: Layout[Any], message: Any) -> None:
        self._transport.write(layout.write(message))

    async def receive(self, timeout_s: float) -> bytes | None:
        """The next frame without its size; None if none arrives in time. Raises LineLost after the last one."""
        if not self._frames and not self._lost:
            self._news.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
            except TimeoutError:
                return None
        if self._frames:
            return self._frames.popleft()
        if self._lost:
            raise LineLost
        return None

    def let_go_s(self) -> float | None:
        """Time at which the broker at the other end dropped this connection while it lives, else None.

        An omniscient observer knows it before this end does.
        """
        end: Transport = self._transport
        return end.other_ended_s

    @property
    def host(self) -> str:
        """Host of the other end."""
        end: Transport = self._transport
        return end.other_host

    def close(self) -> None:
        self._transport.abort()


async def open_line(address: Address) -> Line:
    """Open a connection. Raises LineLost."""
    try:
        _, line = await asyncio.get_running_loop().create_connection(Line, *address)
    except OSError as error:
        raise LineLost from error
    assert isinstance(line, Line)
    return line
