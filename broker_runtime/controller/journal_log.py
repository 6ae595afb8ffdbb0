"""The metadata log as the controller's durable log: a record counts once the journal has committed it.

Brokers fetch the local log up to its high watermark, which is moved here, by commits only.
"""

from collections.abc import Sequence

from broker_runtime.clock import Clock
from broker_runtime.controller.history import History
from broker_runtime.controller.journal.seam import Backing, DeposedError
from broker_runtime.steps import Steps
from broker_runtime.storage.batch import BatchBody, encode_batch
from broker_runtime.storage.batching import FRAME_BYTES_MAX, KeyValue
from broker_runtime.storage.log import Log

_RECORDS_OF_A_STEP = 16


class JournalLog:
    """`epoch` is of the controller that appends; it is set before its first record."""

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
        """Looks at the clock too: a process that slept through its lease is not active when it wakes up."""
        return self._election.held

    @property
    def committed_end_offset(self) -> int:
        """The offset after the last record that is durable."""
        return self._log.high_watermark

    def append(self, records: Sequence[KeyValue]) -> int:
        return self._write(encode_batch(records, self._clock.wall_ms()))

    def append_in_steps(self, records: Sequence[KeyValue]) -> Steps[int]:
        """The records are encoded in steps, and written as one batch."""
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
        """Each decision is a batch of its own, which is written at once: brokers apply one as a whole."""

    async def commit(self) -> None:
        """Raises JournalError."""
        end = self._log.log_end_offset
        if end > self._log.high_watermark:
            await self._journal.commit()
            self._log.advance_high_watermark(end)
            self._history.committed()
        elif not self.held:
            raise DeposedError("the lease has run out")
