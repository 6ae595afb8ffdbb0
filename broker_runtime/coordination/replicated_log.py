"""A replicated partition as a coordinator's log: a record is durable once the high watermark has passed it.

So a client receives no answer whose records a leader elected from the in-sync set would lack. This holds for one leader
epoch: the next leader, even if it is this broker, loads the partition again.

All records appended in one iteration of the event loop become one batch, because a batch costs the leader and every
follower as much as several records. The first append checks whether the partition accepts records; this does not change
within the iteration.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from broker_runtime.clock import Clock
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.batching import FRAME_BYTES_MAX, KeyValue
from kafka_bytes.batches import encode_batch

_RECORD_FRAME_BYTES_MAX = 24
"""Maximum size of a record in a batch in addition to its key and value."""


class LeadershipLostError(Exception):
    """This broker no longer leads the partition, or its disk has failed."""


class BatchRefusedError(Exception):
    """The log has refused records that the state has already applied: the state is loaded again."""


class LedPartition(Protocol):
    """The part of `replication.leader.LeaderReplica` used here. Its epoch changes when this broker stops leading."""

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
        self._gathered: list[KeyValue] = []
        """Records for the next batch, appended in this iteration of the event loop."""
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
        if not self._gathered:
            self._check_takes()
        if size > self.batch_bytes_max:
            # The log itself checks whether the batch is too large.
            return self._write(records)
        offset = self._leader.log.log_end_offset + len(self._gathered)
        self._gathered += records
        self._gathered_bytes += size
        return offset

    def append_in_steps(self, records: Sequence[KeyValue]) -> Steps[int]:
        """Append in a single step, because the batches of this log are of bounded size."""
        yield
        return self.append(records)

    def flush(self) -> None:
        """Write the gathered records as one batch. Raises LeadershipLostError and BatchRefusedError."""
        if not self._gathered:
            return
        records, self._gathered, self._gathered_bytes = self._gathered, [], 0
        self._check_held()
        try:
            self._write(records)
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

    def _write(self, records: Sequence[KeyValue]) -> int:
        batch = encode_batch(records, self._clock.wall_ms())
        return self._leader.log.append(memoryview(batch), leader_epoch=self._epoch).base_offset

    async def commit(self) -> None:
        """Wait, without a timeout, until the in-sync replicas have everything. Raises LeadershipLostError."""
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
