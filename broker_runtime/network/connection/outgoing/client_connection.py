"""One outgoing connection: move bytes between its transport and its machine, and resolve callers' requests. Shell."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from broker_runtime.config.declaring.endpoints import SASL, ServerAddress
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.network.connection.outgoing.client_machine import ClientMachine
from broker_runtime.network.connection.output import send
from broker_runtime.network.settings import ClientLimits
from broker_runtime.network.sockets.interest import Interest
from broker_runtime.network.sockets.poller import Poller
from broker_runtime.network.sockets.transport import Transport

_RECEIVES_PER_SLICE = 16
"""Receives per iteration, while more bytes are available; then other connections are served."""


class Dialler(Protocol):
    """Opens transports to servers: the interface between outgoing connections and their transport protocol."""

    @property
    def poller(self) -> Poller:
        """Return the poller that reports when the transports are ready."""
        ...

    async def dial(self, address: ServerAddress) -> Transport:
        """Connect with the security protocol of `address`. Raises OSError. A cancelled call leaves nothing open."""
        ...


class ClientConnection:
    """A connection to a server. Owns `transport` and the requests sent over it: each gets its response or an error.

    Nothing is durable. Must be used in the thread of the running loop. Raises KafkaError(BROKER_NOT_AVAILABLE) with the
    server's name from `server`.
    """

    __slots__ = (
        "_answers",
        "_ends_when_idle",
        "_interest",
        "_loop",
        "_machine",
        "_session_end",
        "_transport",
        "lost",
        "server",
    )

    def __init__(self, transport: Transport, server: str, limits: ClientLimits, poller: Poller) -> None:
        self.server = server
        self.lost = False
        self._transport = transport
        self._machine = ClientMachine(limits)
        self._loop = asyncio.get_running_loop()
        self._answers: dict[int, asyncio.Future[memoryview]] = {}
        """Pending responses by correlation id, including those whose caller has given up."""
        self._session_end: asyncio.TimerHandle | None = None
        self._ends_when_idle = False
        """The session of this node at the server ends soon."""
        self._interest = Interest(transport, poller)
        self._interest.begin(self)

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        """Send a request, and return the body of the response."""
        # A failed future must not be in a local variable: its error would refer to this frame, and the frame to it.
        return await self._asked(api_key, version, body)

    def _asked(self, api_key: int, version: int, body: bytes | memoryview) -> asyncio.Future[memoryview]:
        if self.lost:
            raise self._unavailable("the connection has ended")
        machine = self._machine
        if machine.full:
            raise self._unavailable("too many requests wait for responses")
        number = machine.request(api_key, version, body, self._loop.time())
        answer: asyncio.Future[memoryview] = self._loop.create_future()
        self._answers[number] = answer
        if not self._interest.write:
            self._send()
        return answer

    def end_in(self, delay_s: float) -> None:
        """Close the connection after this time, when no request is pending, because its session at the server ends."""
        self._session_end = self._loop.call_later(delay_s, self._end_of_session)

    def _end_of_session(self) -> None:
        self._ends_when_idle = True
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._ends_when_idle and not self._answers:
            self._end("its session has ended")

    def waited_s(self) -> float:
        """Return the seconds that the oldest request has waited."""
        return self._machine.waited_s(self._loop.time())

    def _send(self) -> None:
        outgoing = self._machine.outgoing
        try:
            send(self._transport, outgoing)
        except OSError as error:
            self._end(str(error))
            return
        if self._interest.write != bool(outgoing):
            self._interest.write = bool(outgoing)
            self._interest.update()

    def on_readable(self) -> None:
        if self._interest.reads_to_write:
            self._send()
        transport, machine = self._transport, self._machine
        for _ in range(_RECEIVES_PER_SLICE):
            if self.lost:
                return
            try:
                count = transport.receive_into(machine.space())
                if count == 0:
                    self._end("it hung up")
                    return
                answers = machine.received(count)
            except BlockingIOError:
                self._interest.update()
                return
            except (OSError, ProtocolError) as error:
                self._end(str(error))
                return
            for number, body in answers:
                waiting = self._answers.pop(number)
                if not waiting.done():
                    waiting.set_result(body)
            self._end_if_idle()
            if not (transport.holds_bytes or machine.in_large_answer):
                return
        self._loop.call_soon(self.on_readable)

    def on_writable(self) -> None:
        if self._interest.write:
            self._send()
        else:
            # The transport had to write before it could continue reading.
            self.on_readable()

    def was_heavy(self, length_s: float) -> None:
        """Do nothing: reads from another broker are never deferred."""

    def on_hang_up(self) -> None:
        self._end("it hung up")

    def close(self) -> None:
        """Close the connection; pending requests fail with an error."""
        self._end("the connection was closed")

    def _end(self, why: str) -> None:
        if self.lost:
            return
        self.lost = True
        if self._session_end is not None:
            self._session_end.cancel()
        self._interest.end()
        self._transport.close()
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            if not answer.done():
                answer.set_exception(self._unavailable(why))

    def _unavailable(self, why: str) -> KafkaError:
        return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"{self.server}: {why}")


Login = Callable[[ClientConnection], Awaitable[None]]
"""A function that authenticates this node on a new connection. It raises KafkaError(BROKER_NOT_AVAILABLE)."""


class ClientConnector:
    """Connects to one kind of server: controllers or brokers. Raises KafkaError(BROKER_NOT_AVAILABLE).

    `login` is for servers that require authentication by SASL.
    """

    def __init__(self, dialler: Dialler, limits: ClientLimits, login: Login | None = None) -> None:
        self._dialler = dialler
        self._limits = limits
        self._login = login

    async def connect(self, address: ServerAddress, name: str) -> ClientConnection:
        """Connect to a server. Error messages call the server `name`."""
        server = f"{name} at {address}"
        timeout_s = self._limits.connect_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                transport = await self._dialler.dial(address)
                connection = ClientConnection(transport, server, self._limits, self._dialler.poller)
                if address.security_protocol in SASL:
                    await self._authenticate(connection)
        except TimeoutError as error:
            text = f"{server}: no connection within {timeout_s:g} s"
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text) from error
        except OSError as error:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"{server}: {error}") from error
        return connection

    async def _authenticate(self, connection: ClientConnection) -> None:
        """Authenticate, or close the connection."""
        try:
            if self._login is None:
                text = f"{connection.server} requires authentication by SASL, which is not configured here"
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text)
            await self._login(connection)
        except BaseException:
            connection.close()
            raise
