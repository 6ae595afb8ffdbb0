"""How a broker talks to the active controller: request bodies in, response bodies out.

Two links pass the same frames: over a socket to another process, or straight into the controller's dispatcher when
this process is the controller too. What is on top of a link (registration, metadata, forwarding) cannot tell which.

Of several controllers one is active. The others say NOT_CONTROLLER or hang up: then the link goes on to the next one,
round and round. A typed request goes round once, so that its sender knows soon; what a client sent is tried until its
time is over, as in Kafka, with a pause after each round. Both may reach a controller twice when a connection is lost.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, cast

from broker_runtime.apis.context import ControllerContext
from broker_runtime.apis.dispatch import Dispatcher
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.network.closed_observers import ClosedObservers
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.messages import (
    Entity,
    Fields,
    decode_response,
    encode_request_body,
    frame_request,
)
from broker_runtime.wire.reply import FileRegion, PendingReply, Reply

log = logging.getLogger(__name__)

_SIZE_BYTES = 4
_RESPONSE_BYTES_MAX = 128 * 1024 * 1024
_CONNECT_TIMEOUT_S = 1.0
_STUCK_S = 3.0
"""A controller that has not answered for so long is asked no more when somebody gives up waiting: the next one is."""
_RETRY_DELAY_S = 0.05
_RETRY_DELAY_MAX_S = 0.2
_OBSERVERS_MAX = 100
"""Of the end of a link within this process, of which there are a few."""


Server = tuple[str, int]
"""Host and port."""


class ControllerLink(Protocol):
    """Requests to the controllers, of which one is asked at a time."""

    @property
    def choices(self) -> int:
        """Controllers that it may go to."""
        ...

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        """The response body; raises KafkaError(BROKER_NOT_AVAILABLE) when the controller cannot be reached."""
        ...

    @property
    def server(self) -> Server | None:
        """Whom it asks now; None where there is no choice."""
        ...

    def move_on(self) -> None:
        """The next request goes to the next controller."""
        ...

    def turn_to(self, server: Server) -> None:
        """That is the active controller: what waits for another one fails, and the next request goes there."""
        ...

    def close(self) -> None: ...


class ControllerClient:
    """Requests to the controller, typed or forwarded as they came."""

    def __init__(self, link: ControllerLink, timeout_s: float) -> None:
        self._link = link
        self._timeout_s = timeout_s

    @property
    def choices(self) -> int:
        """Controllers of which one may be active."""
        return self._link.choices

    async def request(self, api_key: int, version: int, content: Fields, timeout_s: float | None = None) -> Entity:
        body = memoryview(encode_request_body(api_key, version, content))
        async with self._deadline(timeout_s or self._timeout_s):
            for left in reversed(range(self._link.choices)):
                try:
                    answer = _decoded(api_key, version, await self._link.exchange(api_key, version, body))
                except KafkaError as error:
                    if error.code != ErrorCode.BROKER_NOT_AVAILABLE or not left:
                        raise
                    continue
                if getattr(answer, "error_code", None) != ErrorCode.NOT_CONTROLLER:
                    break
                self._link.move_on()
        return answer

    async def forward(self, api_key: int, version: int, body: memoryview) -> memoryview:
        delay_s = _RETRY_DELAY_S
        async with self._deadline(self._timeout_s):
            while True:
                for _ in range(self.choices):
                    try:
                        return await self._link.exchange(api_key, version, body)
                    except KafkaError as error:
                        if error.code != ErrorCode.BROKER_NOT_AVAILABLE:
                            raise
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, _RETRY_DELAY_MAX_S)

    @asynccontextmanager
    async def _deadline(self, timeout_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(timeout_s):
                yield
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"the controller did not answer within {timeout_s:g} s"
            ) from None

    def move_on(self) -> None:
        """What was answered shows that this controller is not the active one."""
        self._link.move_on()

    def follow(self, other: "ControllerClient") -> None:
        """Go where the other one has found the active controller. One that hangs would be waited for in vain."""
        if other._link.server is not None:
            self._link.turn_to(other._link.server)

    def close(self) -> None:
        self._link.close()


def _decoded(api_key: int, version: int, body: memoryview) -> Entity:
    try:
        return decode_response(api_key, version, body)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller's answer: {error}") from error


class LoopbackLink:
    """To the controller in this process."""

    id = 0
    """Those of clients begin at 1."""
    listener = "CONTROLLER"
    peer = ("127.0.0.1", 0)
    choices = 1
    server = None

    def __init__(self, dispatcher: Dispatcher[ControllerContext]) -> None:
        self._dispatcher = dispatcher
        self.state: object = None
        self.throttle_s = 0.0
        """Makes no difference: a process does not hold up itself."""
        self.closed = ClosedObservers(_OBSERVERS_MAX)

    def refuse(self, kind: str, text: str) -> None:
        """There is no connection to end: who asked hears that there is no answer."""

    def push(self, frame: bytes) -> bool:
        """Nobody reads here what answers nothing."""
        del frame
        return False

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        frame = memoryview(frame_request(api_key, version, 0, body))[_SIZE_BYTES:]
        try:
            answer = self._dispatcher.handle(frame, self)
        except ProtocolError as error:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"the controller refuses: {error}") from error
        if isinstance(answer, PendingReply):
            arrived: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
            answer.on_complete(lambda reply: None if arrived.done() else arrived.set_result(reply))
            try:
                reply = await arrived
            finally:
                answer.cancel()
        else:
            reply = answer
        if reply is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the controller could not answer")
        whole = b"".join(chunk.read() if isinstance(chunk, FileRegion) else chunk for chunk in reply)
        return memoryview(whole)[len(response_prefix(api_key, version, 0, 0)) :]

    def move_on(self) -> None:
        """There is no other."""

    def turn_to(self, server: Server) -> None:
        """There is no other."""

    def close(self) -> None:
        for observer in self.closed.taken():
            observer()


class SocketLink:
    """To controllers elsewhere: one connection, made when needed, requests answered in order."""

    def __init__(self, servers: Sequence[Server], in_flight_max: int) -> None:
        self._servers = deque(servers)
        self._in_flight_max = in_flight_max
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()
        self._correlation_id = 0

    @property
    def choices(self) -> int:
        return len(self._servers)

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        connection = await self._connected()
        if len(connection.waiting) >= self._in_flight_max:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "too many requests wait for the controller")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = frame_request(api_key, version, self._correlation_id, body)
        try:
            answer = await connection.send(frame)
        except asyncio.CancelledError:
            if connection.stuck_s() >= _STUCK_S:
                connection.abort()
            raise
        header = len(response_prefix(api_key, version, 0, 0)) - _SIZE_BYTES
        if int.from_bytes(answer[:4], "big") != self._sent_id(frame):
            connection.abort()
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the controller answered another request")
        return answer[header:]

    @staticmethod
    def _sent_id(frame: bytes) -> int:
        return int.from_bytes(frame[8:12], "big")

    async def _connected(self) -> "_Connection":
        async with self._connecting:
            if self._connection is None or self._connection.lost:
                if self._connection is not None:
                    # Whoever lost it - a standby that hung up, a controller that died - is asked last.
                    self._servers.rotate(-1)
                    self._connection = None
                self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> "_Connection":
        """To the first in the ring that can be reached; it is first from then on."""
        loop = asyncio.get_running_loop()
        problems = []
        for _ in range(len(self._servers)):
            host, port = self._servers[0]
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                    address = await _resolve(host, port)
                    _, connection = await loop.create_connection(_Connection, address, port)
            except (OSError, TimeoutError) as error:
                problems.append(f"{host}:{port} ({error or 'timed out'})")
                self._servers.rotate(-1)
                continue
            except asyncio.CancelledError:
                self._servers.rotate(-1)
                raise
            return connection
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"no controller at {', '.join(problems)}")

    @property
    def server(self) -> Server:
        return self._servers[0]

    def move_on(self) -> None:
        if self._connection is not None:
            self._connection.abort()

    def turn_to(self, server: Server) -> None:
        if server == self._servers[0] or server not in self._servers:
            return
        self._servers.rotate(-self._servers.index(server))
        if self._connection is not None:
            self._connection.abort()
            # Whoever finds a lost connection asks the next one in the ring; this one is the right one.
            self._connection = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.abort()


async def _resolve(host: str, port: int) -> str:
    found = await asyncio.get_running_loop().run_in_executor(
        None, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    )
    return str(found[0][4][0])


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.waiting: deque[tuple[float, asyncio.Future[memoryview]]] = deque()
        """(when it was sent, its answer), the oldest first."""
        self.lost = False
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is one in all but its base class.
        self._transport = cast("asyncio.Transport", transport)

    async def send(self, frame: bytes) -> memoryview:
        if self._transport is None or self.lost:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the connection to the controller is gone")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[memoryview] = loop.create_future()
        self.waiting.append((loop.time(), answer))
        self._transport.write(frame)
        return await answer

    def stuck_s(self) -> float:
        """How long the oldest request has waited."""
        return asyncio.get_running_loop().time() - self.waiting[0][0] if self.waiting else 0.0

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _SIZE_BYTES:
            size = int.from_bytes(self._buffer[:_SIZE_BYTES], "big")
            if size > _RESPONSE_BYTES_MAX or not self.waiting:
                self.abort()
                return
            end = _SIZE_BYTES + size
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[_SIZE_BYTES:end])
            del self._buffer[:end]
            _, answer = self.waiting.popleft()
            if not answer.done():
                answer.set_result(memoryview(payload))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        for _, answer in self.waiting:
            if not answer.done():
                answer.set_exception(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the controller hung up"))
        self.waiting.clear()

    def abort(self) -> None:
        self.lost = True
        if self._transport is not None:
            self._transport.abort()
