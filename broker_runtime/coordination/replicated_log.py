"""A replicated partition as a coordinator's log: a record is durable once the high watermark has passed it.

So nothing is answered that a leader elected from the in-sync set would not have. All of that holds for one leader
epoch: whoever leads next, this broker too, loads the partition anew.

What is appended in one turn of the event loop is one batch: each costs the leader and every follower as much as several
records. Whether the partition takes it is looked at before, as nothing changes within a turn.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from broker_runtime.clock import Clock
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.steps import Steps
from broker_runtime.storage.batch import encode_batch
from broker_runtime.storage.batching import FRAME_BYTES_MAX, KeyValue
from broker_runtime.storage.log import Log

_RECORD_FRAME_BYTES_MAX = 24
"""What a record takes in a batch beside its key and its value, at most."""


class LeadershipLostError(Exception):
    """This broker does not lead the partition any more, or its disk has failed."""


class BatchRefusedError(Exception):
    """The log has not taken what the state has already: it is loaded anew."""


class LedPartition(Protocol):
    """What is needed of `replication.leader.LeaderReplica`. Its epoch changes when this broker leads no more."""

    topic: str
    index: int
    log: Log
    leader_epoch: int

    @property
    def is_under_min_isr(self) -> bool:
        """Whether too few replicas are in sync to take anything."""
        ...


class ReplicatedLog:
    """One leader epoch of a partition that this broker leads, for one term."""

    def __init__(self, leader: LedPartition, clock: Clock) -> None:
        self._leader = leader
        self._clock = clock
        self._epoch = leader.leader_epoch
        self.batch_bytes_max = leader.log.config.max_message_bytes // 2
        """Far enough from max.message.bytes that the headers of records have room."""
        self.record_bytes_max = leader.log.config.max_message_bytes - FRAME_BYTES_MAX
        self._gathered: list[KeyValue] = []
        """For the next batch, of this turn."""
        self._gathered_bytes = 0
        """With all that they need in it."""

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
            # It is the log that knows whether it is too large.
            return self._write(records)
        offset = self._leader.log.log_end_offset + len(self._gathered)
        self._gathered += records
        self._gathered_bytes += size
        return offset

    def append_in_steps(self, records: Sequence[KeyValue]) -> Steps[int]:
        """Its batches are of bounded size: a step is long enough for one."""
        yield
        return self.append(records)

    def flush(self) -> None:
        """Raises LeadershipLostError and BatchRefusedError."""
        if not self._gathered:
            return
        records, self._gathered, self._gathered_bytes = self._gathered, [], 0
        self._check_held()
        try:
            self._write(records)
        except KafkaError as error:
            self._check_held()
            raise BatchRefusedError(f"{self._leader.log.place} refuses what was decided: {error}") from error

    def _check_takes(self) -> None:
        leader = self._leader
        self._check_held()
        if leader.is_under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{leader.topic}-{leader.index} has fewer in-sync replicas than min.insync.replicas asks for",
            )
        files = leader.log.files
        if not files.health.usable:
            files.make_usable()

    def _write(self, records: Sequence[KeyValue]) -> int:
        batch = encode_batch(records, self._clock.wall_ms())
        return self._leader.log.append(memoryview(batch), leader_epoch=self._epoch).base_offset

    async def commit(self) -> None:
        """Raises LeadershipLostError; waits as long as the in-sync replicas take."""
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
            why = leader.log.failure or f"its leader epoch was {self._epoch}, and this broker leads it no more in that"
            raise LeadershipLostError(f"{leader.topic}-{leader.index} is not this broker's to write: {why}")
