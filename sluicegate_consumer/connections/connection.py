"""A connection for frames, by TCP or TLS, authenticated if the settings have credentials; and one for requests."""

import asyncio
from typing import Self

from kafka_bytes.frames import SIZE
from sluicegate_consumer.config import Settings
from sluicegate_consumer.connections.closing import ClosingConnections
from sluicegate_consumer.errors import AuthenticationError, ProtocolError
from sluicegate_consumer.security.authentication import SESSION_PART, Ask, authenticate
from sluicegate_consumer.security.tls import handshake_failure, rejected_certificate
from sluicegate_consumer.wire.kafka import Request


def host_port(host: str, port: int) -> str:
    """Return `host:port` in the usual notation, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class FrameConnection:
    """A connection to a broker that sends and receives frames.

    Raises OSError once the connection has ended, ProtocolError for large frames.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        settings: Settings,
        closing: ClosingConnections | None = None,
    ) -> None:
        """Take over an open connection. `closing` gets it when it is closed, if it has TLS."""
        self._closing = closing if settings.tls is not None else None
        self._reader, self._writer = reader, writer
        peer = writer.get_extra_info("peername")
        self.peer = host_port(*peer[:2]) if peer else "the broker"
        self._settings = settings
        self._last_id = 0
        """The correlation ID of the last request; they begin at 1."""
        self.expires_s = float("inf")
        """Time of the event loop's clock before which the consumer has to authenticate again (KIP-368)."""

    @classmethod
    async def open(cls, host: str, port: int, settings: Settings, closing: ClosingConnections | None = None) -> Self:
        """Connect to a broker and authenticate. Raises OSError (TimeoutError is one), also if the address is invalid.

        Raises AuthenticationError if certificates or credentials are not accepted.
        """
        limit, tls = settings.partition_fetch_bytes_max, settings.tls
        try:
            async with asyncio.timeout(settings.connect_timeout_s):
                reader, writer = await asyncio.open_connection(host, port, limit=limit, ssl=tls)
        except TimeoutError:
            wait_s = settings.connect_timeout_s
            raise TimeoutError(f"{host_port(host, port)} has not accepted a connection within {wait_s} s") from None
        except (OSError, ValueError, OverflowError) as error:
            failure = handshake_failure(error, host[:100]) if isinstance(error, OSError) else None
            if failure is not None:
                raise AuthenticationError(f"{host_port(host[:100], port)}: {failure}") from None
            raise OSError(f"{host_port(host[:100], port)} cannot be reached: {error}") from error
        opened = cls(reader, writer, settings, closing)
        try:
            await opened._authenticate(opened._first_ask)
        except BaseException:
            opened.close()
            raise
        return opened

    async def receive(self) -> memoryview:
        """Return the next frame from the broker, without its size."""
        try:
            (size,) = SIZE.unpack(await self._reader.readexactly(SIZE.size))
            frame_bytes_max = self._settings.frame_bytes_max
            if not 0 <= size <= frame_bytes_max:
                raise ProtocolError(f"a frame has {size} bytes, more than Settings.frame_bytes_max={frame_bytes_max}")
            return memoryview(await self._reader.readexactly(size))
        except asyncio.IncompleteReadError:
            raise ConnectionResetError(f"{self.peer} has closed the connection") from None
        except OSError as error:
            rejected = rejected_certificate(error)
            if rejected is not None:
                raise AuthenticationError(f"{self.peer}: {rejected}") from None
            raise

    def send(self, frame: bytes) -> None:
        """Send a frame without waiting until it has left, because sent frames are small."""
        self._writer.write(frame)

    def close(self) -> None:
        self._writer.close()
        if self._closing is not None:
            self._closing.add(self._writer)

    @property
    def expired(self) -> bool:
        """Return whether the authenticated session ends soon, so that no more requests may be sent."""
        return asyncio.get_running_loop().time() >= self.expires_s

    async def _authenticate(self, ask: Ask) -> None:
        """Authenticate if the settings have credentials, each step within the time of a request."""
        settings = self._settings
        if settings.sasl is None:
            return
        began_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(settings.request_timeout_s):
                lifetime_s = await authenticate(self.peer, settings.sasl, ask)
        except TimeoutError:
            wait_s = settings.request_timeout_s
            raise TimeoutError(f"{self.peer} has not authenticated the consumer within {wait_s} s") from None
        self.expires_s = began_s + SESSION_PART * lifetime_s if lifetime_s else float("inf")

    async def _first_ask(self, request: Request) -> memoryview:
        """Send a request on a connection that no other task uses yet, and return the body of its response."""
        self.send(self._framed(request))
        frame = await self.receive()
        if not self._is_response(frame):
            raise ProtocolError(f"{self.peer} sent a response without a request")
        return frame[SIZE.size :]

    def _framed(self, request: Request) -> bytes:
        self._last_id += 1
        return request.framed(self._last_id, self._settings.client_id)

    def _is_response(self, frame: memoryview) -> bool:
        """Whether the frame is the response to the last request."""
        return len(frame) >= SIZE.size and SIZE.unpack_from(frame) == (self._last_id,)


class RequestConnection(FrameConnection):
    """A connection that sends requests and receives their responses in order.

    The response to a cancelled request is discarded.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        settings: Settings,
        closing: ClosingConnections | None = None,
    ) -> None:
        super().__init__(reader, writer, settings, closing)
        self._asked: dict[int, asyncio.Future[memoryview]] = {}
        self._receiving: asyncio.Task[None] | None = None
        self.ended = False

    @property
    def owed(self) -> int:
        """Return the number of requests without a response yet."""
        return len(self._asked)

    @property
    def forsaken(self) -> bool:
        """Return whether responses are pending and no caller waits for any of them."""
        return bool(self._asked) and all(answer.done() for answer in self._asked.values())

    async def ask(self, request: Request, timeout_s: float) -> memoryview:
        """Send a request and return the body of the response.

        Raises OSError. A timeout also raises it, and ends the connection.
        """
        if self.ended:
            raise ConnectionResetError("the connection has ended")
        if self._receiving is None:
            self._receiving = asyncio.create_task(self._receive_all())
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        framed = self._framed(request)
        self._asked[self._last_id] = answer
        self.send(framed)
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
        except (OSError, ProtocolError, AuthenticationError) as error:
            self._fail(error)
        except asyncio.CancelledError:
            self._fail(ConnectionResetError("the connection was closed"))
            raise

    def _fail(self, error: Exception) -> None:
        self.ended = True
        super().close()
        asked, self._asked = self._asked, {}
        for answer in asked.values():
            if not answer.done():
                answer.set_exception(error)
