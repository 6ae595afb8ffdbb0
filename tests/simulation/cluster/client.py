"""Clients at the level of the protocol: producers and a consumer that act like Kafka's own, and remember everything.

They see the cluster only over the (simulated) wire. check.py judges, except for what a client itself can recognize as
wrong: gaps, and unexpected errors.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from broker_runtime.errors import ErrorCode
from broker_runtime.storage.records.batch import iter_batches, iter_records
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.versions import FETCH, INIT_PRODUCER_ID, PRODUCE
from kafka_bytes.batches import NO_PRODUCER, ProducerStamp, encode_batch
from tests.simulation.cluster.connection import Address, ClusterView, Key, Unanswered

_PRODUCE_TIMEOUT_MS = 2_000
PRODUCE_VERSION, _FETCH_VERSION, _INIT_VERSION = 9, 12, 4
_LOOKS_AGAIN = 0.05
"""Probability that a producer with acks=0 asks for the leader again before a batch."""
FATAL = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
)


@dataclass(slots=True)
class Sent:
    """A batch: its content, and what is known of its fate."""

    values: tuple[bytes, ...]
    attempts: int = 0
    acknowledged: bool = False
    base_offset: int = -1
    broker: int = -1
    connection: tuple[Address, int] | None = None
    """Connection on which a batch without acknowledgement was sent, once."""


@dataclass(slots=True)
class Lane:
    """The batches that one producer sends to one partition, each until it is acknowledged."""

    name: str
    key: Key
    acks: int
    idempotent: bool
    batches: list[Sent] = field(default_factory=list)
    slowest_s: float = 0.0
    """Longest time from the first attempt of a batch to its acknowledgement."""
    abandoned: bool = False
    """Whether the lane's topic is deleted: acknowledgements no longer count, and batches in flight may still arrive."""

    @property
    def settled(self) -> bool:
        return self.abandoned or not self.batches or self.acks == 0 or all(batch.acknowledged for batch in self.batches)


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
            if self.lane.acks:
                await self._deliver(batch)
            else:
                await self._send_once(batch)
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
        began_s = asyncio.get_running_loop().time()
        while not batch.acknowledged and not self.lane.abandoned:
            await self._view.leader_known(self.lane.key)
            batch.attempts += 1
            try:
                code, base_offset, broker = await self._attempt(batch)
            except Unanswered:
                await asyncio.sleep(self._view.random.uniform(0.02, 0.1))
                continue
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                batch.acknowledged, batch.base_offset, batch.broker = True, base_offset, broker
                self.lane.slowest_s = max(self.lane.slowest_s, asyncio.get_running_loop().time() - began_s)
                return
            if code in FATAL and not self.lane.abandoned:
                self._wrong(f"{self.lane.name}: batch {batch.values[0][:40]!r} was refused with {code.name}")
                self.stopped = True
                return
            self._view.leaders.pop(self.lane.key, None)
            await asyncio.sleep(self._view.random.uniform(0.02, 0.1))

    async def _attempt(self, batch: Sent) -> tuple[ErrorCode, int, int]:
        answer, broker = await self._view.ask_leader(self.lane.key, PRODUCE, PRODUCE_VERSION, self._request(batch))
        part = answer.responses[0].partition_responses[0]
        return ErrorCode(int(part.error_code)), int(part.base_offset), broker

    async def _send_once(self, batch: Sent) -> None:
        """Send a batch once; a failure shows by a lost connection, and perhaps never."""
        rng = self._view.random
        if rng.random() < _LOOKS_AGAIN:
            self._view.leaders.pop(self.lane.key, None)
        await self._view.leader_known(self.lane.key)
        batch.attempts = 1
        try:
            request = self._request(batch)
            batch.connection = await self._view.tell_leader(self.lane.key, PRODUCE, PRODUCE_VERSION, request)
        except Unanswered:
            await asyncio.sleep(rng.uniform(0.02, 0.1))

    def _request(self, batch: Sent) -> Fields:
        stamp = ProducerStamp(self._id, 0, self._sequence) if self.lane.idempotent else NO_PRODUCER
        records = encode_batch([(None, value) for value in batch.values], self._wall_ms(), stamp)
        topic, index = self.lane.key
        return {
            "transactional_id": None,
            "acks": self.lane.acks,
            "timeout": _PRODUCE_TIMEOUT_MS,
            "topic_data": [{"name": topic, "partition_data": [{"index": index, "records": records}]}],
        }


@dataclass(slots=True)
class Deletions:
    """Deletions of records in one partition.

    Records before `asked` may be gone; records before `answered` must be gone.
    """

    asked: int = 0
    answered: int = 0


class Consumer:
    """Reads one partition from its beginning, and remembers the value at each offset.

    None stands for a record that was deleted before the consumer reached it.
    """

    def __init__(self, key: Key, view: ClusterView, deletions: Deletions, wrong: Callable[[str], None]) -> None:
        self.key = key
        self.seen: list[bytes | None] = []
        self.stopped = False
        self._view = view
        self._deletions = deletions
        self._wrong = wrong

    async def run(self) -> None:
        while not self.stopped:
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
            elif code == ErrorCode.OFFSET_OUT_OF_RANGE and len(self.seen) < self._deletions.asked:
                self.seen += [None] * (self._deletions.asked - len(self.seen))
            elif code == ErrorCode.OFFSET_OUT_OF_RANGE and not self.stopped:
                self._wrong(f"{self.key}: offset {len(self.seen)} is out of range on broker {broker}: records are gone")
                self.stopped = True
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
        if self.stopped:
            # Its topic was deleted meanwhile; these records may be those of a new topic of that name.
            return
        for _, batch in iter_batches(records):
            for record in iter_records(batch):
                if record.offset < len(self.seen):
                    continue
                if record.offset != len(self.seen):
                    self._wrong(f"{self.key}: broker {broker} answered {record.offset} instead of {len(self.seen)}")
                    self.stopped = True
                    return
                self.seen.append(record.value or b"")
