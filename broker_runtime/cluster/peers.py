"""Connections to other brokers over the inter-broker listener, for replication.

The address is looked up in the metadata at each connect. One request is in flight; its answer is received straight into
a buffer of its size, since it may be megabytes of records.
"""

import asyncio
import socket
from typing import cast

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.messages import frame_request

_SIZE_BYTES = 4
_CONNECT_TIMEOUT_S = 3.0


class BrokerPeers:
    """Finds other brokers in the metadata, by the inter-broker listener, and connects to them."""

    def __init__(self, image: MetadataImage, listener: str, response_bytes_max: int) -> None:
        self._image = image
        self._listener = listener
        self._response_bytes_max = response_bytes_max

    def link_to(self, broker_id: int) -> "BrokerLink":
        return BrokerLink(self, broker_id)

    async def connect(self, broker_id: int) -> "_Connection":
        broker = self._image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(self._listener)
        if endpoint is None:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not known with a listener {self._listener}"
            )
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._response_bytes_max), *found[0][4][:2]
                )
        except (OSError, TimeoutError) as error:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"broker {broker_id} at {endpoint.host}:{endpoint.port}: {error or 'timed out'}",
            ) from error
        return connection


class BrokerLink:
    """Requests to one other broker, one at a time, over a connection that is made when it is needed."""

    def __init__(self, peers: BrokerPeers, broker_id: int) -> None:
        self._peers = peers
        self._broker_id = broker_id
        self._connection: _Connection | None = None
        self._correlation_id = 0

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        if self._connection is None or self._connection.lost:
            self._connection = await self._peers.connect(self._broker_id)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        answer = await self._connection.send(frame_request(api_key, version, self._correlation_id, body))
        header = len(response_prefix(api_key, version, 0, 0)) - _SIZE_BYTES
        if len(answer) < header or int.from_bytes(answer[:4], "big") != self._correlation_id:
            self.close()
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {self._broker_id} answered another request")
        return answer[header:]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


class _Connection(asyncio.BufferedProtocol):
    def __init__(self, response_bytes_max: int) -> None:
        self.lost = False
        self._max = response_bytes_max
        self._size = memoryview(bytearray(_SIZE_BYTES))
        self._body: memoryview | None = None
        self._filled = 0
        self._waiting: asyncio.Future[memoryview] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is one in all but its base class.
        self._transport = cast("asyncio.Transport", transport)

    async def send(self, frame: bytes) -> memoryview:
        if self._transport is None or self.lost or self._waiting is not None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the connection is gone")
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def get_buffer(self, sizehint: int) -> memoryview:
        return (self._size if self._body is None else self._body)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._body is None:
            if self._filled < _SIZE_BYTES:
                return
            size = int.from_bytes(self._size, "big")
            if self._waiting is None or not 0 < size <= self._max:
                self.abort()
                return
            self._body, self._filled = memoryview(bytearray(size)), 0
        elif self._filled == len(self._body):
            answer, self._body, self._filled = self._body, None, 0
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(answer)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the broker hung up"))

    def abort(self) -> None:
        self.lost = True
        if self._transport is not None:
            self._transport.abort()
