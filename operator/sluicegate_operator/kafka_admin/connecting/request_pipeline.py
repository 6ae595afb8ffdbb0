"""Frames of requests on one connection, matched to their replies by correlation id.

The connection ends on anything that is not a Kafka reply. It also ends on the first request that is not answered in
time, because all later requests on it would wait as well.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from kio.static.protocol import RequestPayload

from sluicegate_operator.kafka_admin.connecting.frames import FrameSplitter, encode_request
from sluicegate_operator.kafka_admin.connecting.reading import MalformedError
from sluicegate_operator.kafka_admin.errors import (
    Address,
    AdminConnectionError,
    AdminProtocolError,
    AdminTimeoutError,
    FencedError,
)

MAX_CORRELATION_ID = 2**31 - 1
MAX_IN_FLIGHT = 16


@dataclass(frozen=True, slots=True)
class _InFlight:
    """A sent request. It keeps its slot and its deadline until the reply, even if no caller waits for it any more."""

    reply: asyncio.Future[bytes]
    overdue: asyncio.TimerHandle


class RequestPipeline(asyncio.Protocol):
    """A connection's transport and its requests in flight, `MAX_IN_FLIGHT` at most.

    When `closed` is true, every call raises. `may_write` is called directly before a request that changes anything is
    sent.
    """

    def __init__(self, address: Address, client_id: str, timeout_s: float, may_write: Callable[[], bool]) -> None:
        self.address = address
        self.closed = False
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._may_write = may_write
        self._retiring = False
        self._transport: asyncio.Transport | None = None
        self._failure = AdminConnectionError(address, "not connected yet")
        self._splitter = FrameSplitter()
        self._correlation_ids = count()
        self._in_flight: dict[int, _InFlight] = {}
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)

    def retire(self) -> None:
        """Close the connection when its pending requests are answered."""
        self._retiring = True
        if not self._in_flight:
            self.close()

    def close(self) -> None:
        self.fail(AdminConnectionError(self.address, "the client closed the connection"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self.closed:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._splitter.feed(data):
                self._take(frame)
        except MalformedError as error:
            self.fail(AdminProtocolError(self.address, f"the broker sent a response that is not Kafka's: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f"the connection was lost: {exc}" if exc else "the broker closed the connection"
        self.fail(AdminConnectionError(self.address, reason))

    def _take(self, frame: bytes) -> None:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        request = self._in_flight.pop(correlation_id, None)
        if request is None:
            raise MalformedError(
                f"the broker sent a response to request {correlation_id}, which the client had not sent"
            )
        self._settle(request)
        if not request.reply.done():
            request.reply.set_result(frame)
        if self._retiring and not self._in_flight:
            self.close()

    def _settle(self, request: _InFlight) -> None:
        request.overdue.cancel()
        self._slots.release()

    def fail(self, error: AdminConnectionError) -> None:
        """Close the connection, and end all requests in flight with the error."""
        if self.closed:
            return
        self.closed = True
        self._failure = error
        for request in self._in_flight.values():
            self._settle(request)
            if not request.reply.done():
                request.reply.set_exception(error)
        self._in_flight.clear()
        if self._transport is not None:
            self._transport.abort()

    def _overdue(self, correlation_id: int, api: str) -> None:
        timeout_s = self._timeout_s
        reply = self._in_flight[correlation_id].reply
        if not reply.done():
            reply.set_exception(AdminTimeoutError(self.address, api, timeout_s))
        self.fail(
            AdminConnectionError(
                self.address,
                f"the connection was closed, because the broker did not answer {api} within {timeout_s:g} s",
            )
        )

    async def round_trip(self, request: RequestPayload, api: str, *, alters: bool = False) -> bytes:
        """Send the request and return the whole reply frame, header included."""
        correlation_id = next(self._correlation_ids) % MAX_CORRELATION_ID
        frame = encode_request(request, correlation_id, self._client_id)
        timeout_s = self._timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._slots.acquire()
        except TimeoutError:
            raise AdminTimeoutError(self.address, api, timeout_s) from None
        if self.closed or self._transport is None:
            self._slots.release()
            raise AdminConnectionError(self.address, self._failure.reason)
        if alters and not self._may_write():
            self._slots.release()
            raise FencedError(self.address, api)
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[bytes] = loop.create_future()
        overdue = loop.call_later(timeout_s, self._overdue, correlation_id, api)
        self._in_flight[correlation_id] = _InFlight(reply, overdue)
        self._transport.write(frame)
        return await reply
