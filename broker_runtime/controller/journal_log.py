"""The metadata log as the controller's durable log: a record counts once the journal has committed it.

Brokers fetch the local log up to its high watermark, which only commits advance here.
"""

from collections.abc import Sequence

from broker_runtime.clock import Clock
from broker_runtime.controller.history import History
from broker_runtime.controller.journal.seam import Backing, DeposedError
from broker_runtime.coordination.seam import TransactionalProducer
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.batching import FRAME_BYTES_MAX, KeyValue
from kafka_bytes.batches import BatchBody, encode_batch
from kafka_bytes.control import Marker

_RECORDS_OF_A_STEP = 16


class JournalLog:
    """The log of an active controller, which a journal makes durable.

    `epoch` is that of this controller; it is set before the first record.
    """

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
        """Return whether this controller holds the lease, and may write.

        This checks the clock too: a process suspended beyond its lease is no longer active.
        """
        return self._election.held

    @property
    def committed_end_offset(self) -> int:
        """Return the offset after the last durable record."""
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

    def append_transactional(self, records: Sequence[KeyValue], producer: TransactionalProducer) -> int:
        """Refuse the records, because brokers that follow the metadata log know no transactions. Raises KafkaError."""
        raise _no_transactions(producer.producer_id)

    def append_marker(self, marker: Marker) -> int:
        """Refuse the marker, as `append_transactional` refuses records. Raises KafkaError."""
        raise _no_transactions(marker.producer_id)

    def _write(self, batch: bytes) -> int:
        base = self._log.append(memoryview(batch), leader_epoch=self.epoch).base_offset
        self._history.appended(len(batch))
        return base

    def flush(self) -> None:
        """Do nothing: each decision is written at once as one batch, and brokers apply the batch as a whole."""

    async def commit(self) -> None:
        """Make the log durable and advance the high watermark. Raises JournalError."""
        end = self._log.log_end_offset
        if end > self._log.high_watermark:
            await self._journal.commit()
            self._log.advance_high_watermark(end)
            self._history.committed()
        elif not self.held:
            raise DeposedError("the lease has expired")


def _no_transactions(producer_id: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE, f"the metadata log has no transactions, so none of producer {producer_id}"
    )
