"""A TCP connection for frames, and one for Kafka's requests."""

import asyncio
from typing import Self

from kafka_bytes.frames import SIZE
from sluicegate_consumer.config import Settings
from sluicegate_consumer.errors import ProtocolError
from sluicegate_consumer.wire.kafka import Request


def host_port(host: str, port: int) -> str:
    """Return `host:port` in the usual notation, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class FrameConnection:
    """Sends and receives frames. Raises OSError once the connection has ended, ProtocolError for large frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, settings: Settings) -> None:
        self._reader, self._writer = reader, writer
        peer = writer.get_extra_info("peername")
        self.peer = host_port(*peer[:2]) if peer else "the broker"
        self._frame_bytes_max = settings.frame_bytes_max

    @classmethod
    async def open(cls, host: str, port: int, settings: Settings) -> Self:
        """Connect to a broker. Raises OSError (TimeoutError is one), also if the address is invalid."""
        try:
            async with asyncio.timeout(settings.connect_timeout_s):
                reader, writer = await asyncio.open_connection(host, port, limit=settings.partition_fetch_bytes_max)
        except TimeoutError:
            wait_s = settings.connect_timeout_s
            raise TimeoutError(f"{host_port(host, port)} has not accepted a connection within {wait_s} s") from None
        except (OSError, ValueError, OverflowError) as error:
            raise OSError(f"{host_port(host[:100], port)} cannot be reached: {error}") from error
        return cls(reader, writer, settings)

    async def receive(self) -> memoryview:
        """Return one frame without its size."""
        try:
            (size,) = SIZE.unpack(await self._reader.readexactly(SIZE.size))
            if not 0 <= size <= self._frame_bytes_max:
                raise ProtocolError(
                    f"a frame has {size} bytes, more than Settings.frame_bytes_max={self._frame_bytes_max}"
                )
            return memoryview(await self._reader.readexactly(size))
        except asyncio.IncompleteReadError:
            raise ConnectionResetError(f"{self.peer} has closed the connection") from None

    def send(self, frame: bytes) -> None:
        """Send a frame without waiting until it has left: frames sent are small."""
        self._writer.write(frame)

    def close(self) -> None:
        self._writer.close()


class RequestConnection(FrameConnection):
    """Sends requests and receives their responses in order. The response to a cancelled request is discarded."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, settings: Settings) -> None:
        super().__init__(reader, writer, settings)
        self._client_id = settings.client_id
        self._next_id = 0
        self._asked: dict[int, asyncio.Future[memoryview]] = {}
        self._receiving: asyncio.Task[None] | None = None
        self.ended = False

    @property
    def owed(self) -> int:
        """Number of pending responses."""
        return len(self._asked)

    @property
    def forsaken(self) -> bool:
        """Whether responses are pending and no caller waits for any of them."""
        return bool(self._asked) and all(answer.done() for answer in self._asked.values())

    async def ask(self, request: Request, timeout_s: float) -> memoryview:
        """Return the body of the response. Raises OSError; a timeout raises it, too, and ends the connection."""
        if self.ended:
            raise ConnectionResetError("the connection has ended")
        if self._receiving is None:
            self._receiving = asyncio.create_task(self._receive_all())
        self._next_id += 1
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._asked[self._next_id] = answer
        self.send(request.framed(self._next_id, self._client_id))
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            self.close()
            raise TimeoutError(f"{self.peer} has not answered within {timeout_s} s") from None

    def close(self) -> None:
        self.ended = True
        if self._receiving is not None:
            self._receiving.cancel()
        super().close()

    async def _receive_all(self) -> None:
        try:
            while True:
                frame = await self.receive()
                (correlation_id,) = SIZE.unpack_from(frame) if len(frame) >= SIZE.size else (None,)
                answer = self._asked.pop(correlation_id, None) if correlation_id is not None else None
                if answer is None:
                    raise ProtocolError("the broker sent a response without a request")
                if not answer.done():
                    answer.set_result(frame[SIZE.size :])
        except (OSError, ProtocolError) as error:
            self._fail(error)
        except asyncio.CancelledError:
            self._fail(ConnectionResetError("the connection was closed"))
            raise

    def _fail(self, error: Exception) -> None:
        self.ended = True
        self._writer.close()
        asked, self._asked = self._asked, {}
        for answer in asked.values():
            if not answer.done():
                answer.set_exception(error)
