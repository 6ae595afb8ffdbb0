"""Clients at the level of the protocol: producers and a consumer that do what Kafka's own do, and remember everything.

They see the cluster only over the (simulated) wire. Judging is check.py's matter, but for what a client itself can see
to be wrong: gaps, and errors that must not come.
"""

import asyncio
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from broker_runtime.errors import ErrorCode
from broker_runtime.storage.batch import NO_PRODUCER, ProducerStamp, encode_batch, iter_batches, iter_records
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.messages import Entity, Fields, decode_response
from broker_runtime.wire.versions import FETCH, INIT_PRODUCER_ID, METADATA, PRODUCE
from tests.support.request_frames import encode_request

Address = tuple[str, int]
Key = tuple[str, int]
_SIZE = struct.Struct(">i")
_REQUEST_TIMEOUT_S = 3.0
_PRODUCE_TIMEOUT_MS = 2_000
_METADATA_VERSION, _PRODUCE_VERSION, _FETCH_VERSION, _INIT_VERSION = 9, 9, 12, 4
_ALL_TOPICS: Mapping[str, object] = {
    "topics": None,
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}
_FATAL = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
)


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


class Connection:
    """To one broker, one request at a time; made again when it is lost."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._protocol: _Protocol | None = None
        self._correlation_id = 0

    async def ask(self, api_key: int, version: int, content: Fields) -> Entity:
        """Raises Unanswered."""
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                frame = await self._exchange(api_key, version, content)
        except (TimeoutError, OSError) as error:
            self.close()
            raise Unanswered(str(error) or "too late") from None
        except Unanswered:
            self.close()
            raise
        return decode_response(api_key, version, memoryview(frame)[len(response_prefix(api_key, version, 0, 0)) :])

    async def _exchange(self, api_key: int, version: int, content: Fields) -> bytes:
        protocol = self._protocol
        if protocol is None or protocol.lost:
            loop = asyncio.get_running_loop()
            _, protocol = await loop.create_connection(_Protocol, *self.address)
            self._protocol = protocol
        self._correlation_id += 1
        protocol.waiting = asyncio.get_running_loop().create_future()
        protocol.transport.write(encode_request(api_key, version, self._correlation_id, content))
        frame = await protocol.waiting
        assert int.from_bytes(frame[4:8], "big") == self._correlation_id
        return frame

    def close(self) -> None:
        if self._protocol is not None:
            self._protocol.transport.abort()
            self._protocol = None


class ClusterView:
    """What a client knows of the cluster: the addresses it was given, and who leads what."""

    def __init__(self, bootstrap: Sequence[Address], rng: random.Random) -> None:
        self.random = rng
        self.leaders: dict[Key, int] = {}
        self._bootstrap = list(bootstrap)
        self._addresses: dict[int, Address] = {}
        self._connections: dict[Address, Connection] = {}

    async def ask_any(self, api_key: int, version: int, content: Fields) -> Entity:
        return await self._connection(self.random.choice(self._bootstrap)).ask(api_key, version, content)

    async def refresh(self) -> None:
        """Raises Unanswered."""
        found = await self.ask_any(METADATA, _METADATA_VERSION, _ALL_TOPICS)
        self._addresses = {int(b.node_id): (str(b.host), int(b.port)) for b in found.brokers}
        self.leaders = {
            (str(topic.name), int(part.partition_index)): int(part.leader_id)
            for topic in found.topics
            for part in topic.partitions
            if int(part.leader_id) >= 0
        }

    async def ask_leader(self, key: Key, api_key: int, version: int, content: Fields) -> tuple[Entity, int]:
        """The answer, and who gave it. Raises Unanswered."""
        leader = self.leaders.get(key, -1)
        address = self._addresses.get(leader)
        if address is None:
            self.leaders.pop(key, None)
            raise Unanswered("no leader is known")
        try:
            return await self._connection(address).ask(api_key, version, content), leader
        except Unanswered:
            self.leaders.pop(key, None)
            raise

    def _connection(self, address: Address) -> Connection:
        return self._connections.setdefault(address, Connection(address))

    async def leader_known(self, key: Key) -> None:
        while key not in self.leaders:
            with suppress(Unanswered):
                await self.refresh()
            if key not in self.leaders:
                await asyncio.sleep(self.random.uniform(0.05, 0.3))


@dataclass(slots=True)
class Sent:
    """A batch: what is in it, and what is known of its fate."""

    values: tuple[bytes, ...]
    attempts: int = 0
    acknowledged: bool = False
    base_offset: int = -1
    broker: int = -1


@dataclass(slots=True)
class Lane:
    """What one producer sends to one partition, one batch at a time, each until it is acknowledged."""

    name: str
    key: Key
    acks: int
    idempotent: bool
    batches: list[Sent] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        return not self.batches or self.batches[-1].acknowledged


class Producer:
    def __init__(
        self,
        lane: Lane,
        view: ClusterView,
        wrong: Callable[[str], None],
        wall_ms: Callable[[], int],
        pause_max_s: float,
    ) -> None:
        self.lane = lane
        self.stopped = False
        self._view = view
        self._wrong = wrong
        self._wall_ms = wall_ms
        self._pause_max_s = pause_max_s
        self._id = -1
        self._sequence = 0
        self._number = 0

    async def run(self) -> None:
        rng = self._view.random
        if self.lane.idempotent:
            await self._take_id()
        while not self.stopped:
            batch = self._next()
            self.lane.batches.append(batch)
            await self._deliver(batch)
            self._sequence += len(batch.values)
            await asyncio.sleep(rng.uniform(0.0, self._pause_max_s))

    async def _take_id(self) -> None:
        while self._id < 0:
            try:
                answer = await self._view.ask_any(
                    INIT_PRODUCER_ID,
                    _INIT_VERSION,
                    {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1},
                )
            except Unanswered:
                continue
            if int(answer.error_code) == 0:
                self._id = int(answer.producer_id)
            else:
                await asyncio.sleep(0.1)

    def _next(self) -> Sent:
        count = self._view.random.choice((1, 1, 2, 5))
        first, self._number = self._number, self._number + count
        padding = "." * self._view.random.choice((0, 0, 100, 2_000))
        return Sent(tuple(f"{self.lane.name}:{number}:{padding}".encode() for number in range(first, first + count)))

    async def _deliver(self, batch: Sent) -> None:
        while not batch.acknowledged:
            await self._view.leader_known(self.lane.key)
            batch.attempts += 1
            try:
                code, base_offset, broker = await self._attempt(batch)
            except Unanswered:
                await asyncio.sleep(self._view.random.uniform(0.02, 0.1))
                continue
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                batch.acknowledged, batch.base_offset, batch.broker = True, base_offset, broker
                return
            if code in _FATAL:
                self._wrong(f"{self.lane.name}: batch {batch.values[0][:40]!r} was refused with {code.name}")
                self.stopped = True
                return
            self._view.leaders.pop(self.lane.key, None)
            await asyncio.sleep(self._view.random.uniform(0.02, 0.1))

    async def _attempt(self, batch: Sent) -> tuple[ErrorCode, int, int]:
        stamp = ProducerStamp(self._id, 0, self._sequence) if self.lane.idempotent else NO_PRODUCER
        records = encode_batch([(None, value) for value in batch.values], self._wall_ms(), stamp)
        topic, index = self.lane.key
        answer, broker = await self._view.ask_leader(
            self.lane.key,
            PRODUCE,
            _PRODUCE_VERSION,
            {
                "transactional_id": None,
                "acks": self.lane.acks,
                "timeout": _PRODUCE_TIMEOUT_MS,
                "topic_data": [{"name": topic, "partition_data": [{"index": index, "records": records}]}],
            },
        )
        part = answer.responses[0].partition_responses[0]
        return ErrorCode(int(part.error_code)), int(part.base_offset), broker


class Consumer:
    """Reads one partition from its beginning, and remembers what it has seen at which offset."""

    def __init__(self, key: Key, view: ClusterView, wrong: Callable[[str], None]) -> None:
        self.key = key
        self.seen: list[bytes] = []
        self._view = view
        self._wrong = wrong
        self._stopped = False

    async def run(self) -> None:
        while not self._stopped:
            await self._view.leader_known(self.key)
            try:
                answer, broker = await self._view.ask_leader(self.key, FETCH, _FETCH_VERSION, self._request())
            except Unanswered:
                await asyncio.sleep(self._view.random.uniform(0.02, 0.1))
                continue
            part = answer.responses[0].partitions[0]
            code = ErrorCode(int(part.error_code))
            if code == ErrorCode.NONE:
                self._take(part.records or b"", broker)
            elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._wrong(f"{self.key}: offset {len(self.seen)} is out of range on broker {broker}: records are gone")
                self._stopped = True
            else:
                self._view.leaders.pop(self.key, None)
                await asyncio.sleep(self._view.random.uniform(0.02, 0.1))

    def _request(self) -> Mapping[str, object]:
        partition = {
            "partition": self.key[1],
            "current_leader_epoch": -1,
            "fetch_offset": len(self.seen),
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 65_536,
        }
        return {
            "replica_id": -1,
            "max_wait": 500,
            "min_bytes": 1,
            "max_bytes": 1_000_000,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": self.key[0], "partitions": [partition]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }

    def _take(self, records: bytes, broker: int) -> None:
        for _, batch in iter_batches(records):
            for record in iter_records(batch):
                if record.offset < len(self.seen):
                    continue
                if record.offset != len(self.seen):
                    self._wrong(f"{self.key}: broker {broker} answered {record.offset} instead of {len(self.seen)}")
                    self._stopped = True
                    return
                self.seen.append(record.value or b"")
