"""The metadata log as the controller's durable log: a record counts once the journal has committed it.

Brokers fetch the local log up to its high watermark, which only commits advance here.
"""

from collections.abc import Sequence

from broker_runtime.clock import Clock
from broker_runtime.controller.history import History
from broker_runtime.controller.journal.seam import Backing, DeposedError
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.batching import FRAME_BYTES_MAX, KeyValue
from kafka_bytes.batches import BatchBody, encode_batch

_RECORDS_OF_A_STEP = 16


class JournalLog:
    """Appends with `epoch`, that of this controller; it is set before the first record."""

    batch_bytes_max = 512 * 1024

    def __init__(self, backing: Backing, history: History, clock: Clock) -> None:
        self.epoch = 0
        self._log: Log = backing.log
        self.record_bytes_max = self._log.config.max_message_bytes - FRAME_BYTES_MAX
        self._journal = backing.journal
        self._election = backing.election
        self._history = history
        self._clock = clock
        self._log.sole_replica = False

    @property
    def held(self) -> bool:
        """Whether the lease is held. Checks the clock too: a process suspended beyond its lease is no longer active."""
        return self._election.held

    @property
    def committed_end_offset(self) -> int:
        """The offset after the last durable record."""
        return self._log.high_watermark

    def append(self, records: Sequence[KeyValue]) -> int:
        return self._write(encode_batch(records, self._clock.wall_ms()))

    def append_in_steps(self, records: Sequence[KeyValue]) -> Steps[int]:
        """Encode the records in steps, and write them as one batch."""
        body = BatchBody()
        for number, (key, value) in enumerate(records, 1):
            body.add(key, value)
            if number % _RECORDS_OF_A_STEP == 0:
                yield
        return self._write(body.batch(self._clock.wall_ms()))

    def _write(self, batch: bytes) -> int:
        base = self._log.append(memoryview(batch), leader_epoch=self.epoch).base_offset
        self._history.appended(len(batch))
        return base

    def flush(self) -> None:
        """Do nothing: each decision is a batch of its own, written at once, and brokers apply it as a whole."""

    async def commit(self) -> None:
        """Make the log durable and advance the high watermark. Raises JournalError."""
        end = self._log.log_end_offset
        if end > self._log.high_watermark:
            await self._journal.commit()
            self._log.advance_high_watermark(end)
            self._history.committed()
        elif not self.held:
            raise DeposedError("the lease has expired")
