"""The access of clients to a simulated cluster: connections, and what they know of leaders."""

import asyncio
import random
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.messages import Entity, Fields, decode_response
from broker_runtime.wire.versions import METADATA
from tests.support.requests.request_frames import encode_request

Address = tuple[str, int]
Key = tuple[str, int]
Ask = Callable[[int, int, Fields], Awaitable[Entity]]
"""Sends a request on one connection and returns the answer."""
_SIZE = struct.Struct(">i")
_REQUEST_TIMEOUT_S = 3.0
METADATA_VERSION = 9
ALL_TOPICS: Mapping[str, object] = {
    "topics": None,
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}


class Unanswered(Exception):  # noqa: N818 - what happened, and usual
    """No answer: not connected, hung up, or too late. Whether the request was served is not known."""


class _Protocol(asyncio.Protocol):
    def __init__(self) -> None:
        self.lost = False
        self.waiting: asyncio.Future[bytes] | None = None
        self.transport: Any = None
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) >= 4 and len(self._buffer) >= 4 + _SIZE.unpack_from(self._buffer)[0]:
            end = 4 + _SIZE.unpack_from(self._buffer)[0]
            frame = bytes(self._buffer[:end])
            del self._buffer[:end]
            if self.waiting is not None and not self.waiting.done():
                self.waiting.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_exception(Unanswered("hung up"))


class Authenticates(Protocol):
    """The authentication of a client's connections. Both return when to renew, and raise Unanswered if refused."""

    async def begin(self, ask: Ask, address: Address) -> float: ...

    async def renew(self, ask: Ask, address: Address) -> float: ...


class Connection:
    """A connection to one broker, one request at a time; it reconnects after a loss."""

    def __init__(self, address: Address, login: Authenticates | None = None) -> None:
        self.address = address
        self._login = login
        self._renews_s = 0.0
        self.number = 0
        """Number of times that it was connected."""
        self._protocol: _Protocol | None = None
        self._correlation_id = 0

    async def ask(self, api_key: int, version: int, content: Fields, timeout_s: float = _REQUEST_TIMEOUT_S) -> Entity:
        """Send a request and return the answer. Raises Unanswered."""
        try:
            async with asyncio.timeout(timeout_s):
                protocol = await self._connected()
                return await self._exchange(protocol, api_key, version, content)
        except (TimeoutError, OSError) as error:
            self.close()
            raise Unanswered(str(error) or "too late") from None
        except Unanswered:
            self.close()
            raise

    async def _exchange(self, protocol: _Protocol, api_key: int, version: int, content: Fields) -> Entity:
        protocol.waiting = asyncio.get_running_loop().create_future()
        self._send(protocol, api_key, version, content)
        frame = await protocol.waiting
        assert int.from_bytes(frame[4:8], "big") == self._correlation_id
        return decode_response(api_key, version, memoryview(frame)[len(response_prefix(api_key, version, 0, 0)) :])

    async def tell(self, api_key: int, version: int, content: Fields) -> None:
        """Send a request that has no answer. Raises Unanswered if it was certainly not sent."""
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                protocol = await self._connected()
        except (TimeoutError, OSError) as error:
            self.close()
            raise Unanswered(str(error) or "too late") from None
        except Unanswered:
            self.close()
            raise
        self._send(protocol, api_key, version, content)

    async def _connected(self) -> _Protocol:
        protocol, loop = self._protocol, asyncio.get_running_loop()
        if protocol is None or protocol.lost:
            _, protocol = await loop.create_connection(_Protocol, *self.address)
            self._protocol = protocol
            self.number += 1
            if self._login is not None:
                self._renews_s = await self._login.begin(*self._of(protocol))
        elif self._login is not None and loop.time() > self._renews_s:
            self._renews_s = await self._login.renew(*self._of(protocol))
        return protocol

    def _of(self, protocol: _Protocol) -> tuple[Ask, Address]:
        """Return the function with which the connection's login asks, and the address that the broker sees."""
        return partial(self._exchange, protocol), protocol.transport.address

    def _send(self, protocol: _Protocol, api_key: int, version: int, content: Fields) -> None:
        self._correlation_id += 1
        protocol.transport.write(encode_request(api_key, version, self._correlation_id, content))

    def close(self) -> None:
        if self._protocol is not None:
            self._protocol.transport.abort()
            self._protocol = None


class ClusterView:
    """The cluster as a client knows it: the addresses that it was given, and the leaders."""

    def __init__(self, bootstrap: Sequence[Address], rng: random.Random, login: Authenticates | None = None) -> None:
        self._login = login
        self.random = rng
        self.leaders: dict[Key, int] = {}
        self._bootstrap = list(bootstrap)
        self._addresses: dict[int, Address] = {}
        self._connections: dict[Address, Connection] = {}

    async def ask_any(self, api_key: int, version: int, content: Fields) -> Entity:
        return await self._connection(self.any_address()).ask(api_key, version, content)

    def any_address(self) -> Address:
        return self.random.choice(self._bootstrap)

    async def refresh(self) -> None:
        """Read the metadata. Raises Unanswered."""
        found = await self.ask_any(METADATA, METADATA_VERSION, ALL_TOPICS)
        self._addresses = {int(b.node_id): (str(b.host), int(b.port)) for b in found.brokers}
        self.leaders = {
            (str(topic.name), int(part.partition_index)): int(part.leader_id)
            for topic in found.topics
            for part in topic.partitions
            if int(part.leader_id) >= 0
        }

    async def ask_leader(self, key: Key, api_key: int, version: int, content: Fields) -> tuple[Entity, int]:
        """The answer, and the broker that gave it. Raises Unanswered."""
        leader, connection = self._to_leader(key)
        try:
            return await connection.ask(api_key, version, content), leader
        except Unanswered:
            self.leaders.pop(key, None)
            raise

    async def tell_leader(self, key: Key, api_key: int, version: int, content: Fields) -> tuple[Address, int]:
        """Send a request without an answer, and return its connection: an address and a number.

        Raises Unanswered if nothing was sent.
        """
        _, connection = self._to_leader(key)
        try:
            await connection.tell(api_key, version, content)
        except Unanswered:
            self.leaders.pop(key, None)
            raise
        return connection.address, connection.number

    def _to_leader(self, key: Key) -> tuple[int, Connection]:
        leader, address = self.address_of_leader(key)
        return leader, self._connection(address)

    def address_of_leader(self, key: Key) -> tuple[int, Address]:
        """Id and address of the leader. Raises Unanswered if it is unknown."""
        leader = self.leaders.get(key, -1)
        address = self._addresses.get(leader)
        if address is None:
            self.leaders.pop(key, None)
            raise Unanswered("no leader is known")
        return leader, address

    def _connection(self, address: Address) -> Connection:
        return self._connections.setdefault(address, Connection(address, self._login))

    async def leader_known(self, key: Key) -> None:
        while key not in self.leaders:
            with suppress(Unanswered):
                await self.refresh()
            if key not in self.leaders:
                await asyncio.sleep(self.random.uniform(0.05, 0.3))
