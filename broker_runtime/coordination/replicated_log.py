"""A replicated partition as a coordinator's log: a record is durable once the high watermark has passed it.

So a client receives no answer whose records a leader elected from the in-sync set would lack. This holds for one leader
epoch: the next leader, even if it is this broker, loads the partition again.

All records appended in one iteration of the event loop become one batch, because a batch costs the leader and every
follower as much as several records. The first append checks whether the partition accepts records; this does not change
within the iteration. Records of a producer's transaction have a batch of their own, and so has the marker that ends it.
The batch gathered so far is written before them, so that the order of the log is the order of the decisions.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from broker_runtime.clock import Clock
from broker_runtime.coordination.seam import TransactionalProducer
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps, pages
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.batching import FRAME_BYTES_MAX, KeyValue
from broker_runtime.storage.records.validation import COORDINATORS_SEQUENCE_MIN
from kafka_bytes.batches import TRANSACTIONAL, BatchBody, ProducerStamp, encode_batch
from kafka_bytes.control import Marker

_RECORDS_OF_A_STEP = 16
_RECORD_FRAME_BYTES_MAX = 24
"""Maximum size of a record in a batch in addition to its key and value."""


class LeadershipLostError(Exception):
    """Error for a coordinator whose broker no longer leads the partition, or whose disk has failed."""


class BatchRefusedError(Exception):
    """The log refuses records of a decision that the coordinator's state has already applied.

    The state is loaded again.
    """


class LedPartition(Protocol):
    """A partition that this broker leads: the used part of `replication.leader.LeaderReplica`.

    The epoch changes when this broker stops leading.
    """

    topic: str
    index: int
    log: Log
    leader_epoch: int

    @property
    def is_under_min_isr(self) -> bool:
        """Whether too few replicas are in sync to accept writes."""
        ...


class ReplicatedLog:
    """The log of a coordinator's term: a partition that this broker leads, in one leader epoch."""

    def __init__(self, leader: LedPartition, clock: Clock) -> None:
        self._leader = leader
        self._clock = clock
        self._epoch = leader.leader_epoch
        self.batch_bytes_max = leader.log.config.max_message_bytes // 2
        """Half of max.message.bytes, which leaves room for the headers of records."""
        self.record_bytes_max = leader.log.config.max_message_bytes - FRAME_BYTES_MAX
        self._gathered = BatchBody()
        """Records for the next batch, appended in this iteration of the event loop.

        Each is encoded when it is appended: the encoding of thousands of records would take long in `flush`.
        """
        self._gathered_bytes = 0
        """Size of the gathered records in the batch, including their framing."""

    @property
    def held(self) -> bool:
        return self._leader.leader_epoch == self._epoch and self._leader.log.failure is None

    def append(self, records: Sequence[KeyValue]) -> int:
        size = sum([len(key or b"") + len(value or b"") for key, value in records])
        size += _RECORD_FRAME_BYTES_MAX * len(records)
        if self._gathered_bytes + size > self.batch_bytes_max:
            self.flush()
        if not self._gathered.count:
            self._check_takes()
        if size > self.batch_bytes_max:
            # The log itself checks whether the batch is too large.
            return self._write(encode_batch(records, self._clock.wall_ms()))
        offset = self._leader.log.log_end_offset + self._gathered.count
        for key, value in records:
            self._gathered.add(key, value)
        self._gathered_bytes += size
        return offset

    def append_in_steps(self, records: Sequence[KeyValue]) -> Steps[int]:
        """Encode the records in steps, and write them as one batch, after those that are gathered."""
        body = BatchBody()
        for some in pages(records, _RECORDS_OF_A_STEP):
            for key, value in some:
                body.add(key, value)
            yield
        self.flush()
        self._check_takes()
        return self._write(body.batch(self._clock.wall_ms()))

    def append_transactional(self, records: Sequence[KeyValue], producer: TransactionalProducer) -> int:
        self.flush()
        self._check_takes()
        stamp = ProducerStamp(producer.producer_id, producer.epoch)
        batch = encode_batch(records, self._clock.wall_ms(), stamp, attributes=TRANSACTIONAL)
        log = self._leader.log
        return log.append(
            memoryview(batch),
            leader_epoch=self._epoch,
            guard=producer.guard,
            sequence_min=COORDINATORS_SEQUENCE_MIN,
        ).base_offset

    def append_marker(self, marker: Marker) -> int:
        self.flush()
        self._check_takes()
        return self._leader.log.append_marker(marker, leader_epoch=self._epoch).base_offset

    def flush(self) -> None:
        """Write the gathered records as one batch. Raises LeadershipLostError and BatchRefusedError."""
        if not self._gathered.count:
            return
        gathered, self._gathered, self._gathered_bytes = self._gathered, BatchBody(), 0
        self._check_held()
        try:
            self._write(gathered.batch(self._clock.wall_ms()))
        except KafkaError as error:
            self._check_held()
            raise BatchRefusedError(f"{self._leader.log.place} refused the records of a decision: {error}") from error

    def _check_takes(self) -> None:
        leader = self._leader
        self._check_held()
        if leader.is_under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{leader.topic}-{leader.index} has fewer in-sync replicas than min.insync.replicas",
            )
        files = leader.log.files
        if not files.health.usable:
            files.make_usable()

    def _write(self, batch: bytes) -> int:
        return self._leader.log.append(memoryview(batch), leader_epoch=self._epoch).base_offset

    async def commit(self) -> None:
        """Wait, without a timeout, until the in-sync replicas have all appended records. Raises LeadershipLostError."""
        leader = self._leader
        end = leader.log.log_end_offset
        while self.held and leader.log.high_watermark < end:
            woken = asyncio.Event()
            undo = leader.log.add_waiter(end - 1, woken.set)
            try:
                await woken.wait()
            finally:
                undo()
        self._check_held()

    def _check_held(self) -> None:
        if not self.held:
            leader = self._leader
            why = leader.log.failure or f"this broker no longer leads the partition in epoch {self._epoch}"
            raise LeadershipLostError(f"this broker may no longer write to {leader.topic}-{leader.index}: {why}")
