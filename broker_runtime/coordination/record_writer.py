"""Appends the records of decisions to the log and applies them to the state, in batches that the log accepts."""

from collections.abc import Sequence
from typing import Generic

from broker_runtime.coordination.seam import (
    AtomicBatch,
    DurableLog,
    R,
    S,
    Shard,
    TransactionalBatch,
    TransactionEnd,
    in_one_go,
)
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.records.batching import Batches, KeyValue, in_batches

_RECORDS_OF_A_STEP = 8


class RecordWriter(Generic[S, R]):
    """The only part of a runtime that appends to its log. The changed state is the runtime's."""

    def __init__(self, shard: Shard[S, R], durable: DurableLog) -> None:
        self._shard = shard
        self._durable = durable

    def append(self, records: Sequence[R], state: S) -> None:
        """Append records to the log, then apply them to the state. Raises KafkaError if the log refuses them.

        Very many records are split into several batches, each of which leaves a valid state; `AtomicBatch` records are
        not split. If one record is too large for the log, none is written. Otherwise the log might contain, for
        example, the end of a group without the group that replaces it.
        """
        if isinstance(records, TransactionEnd):
            self._end(records, state)
            return
        batches: Sequence[list[tuple[R, KeyValue]]]
        encode = self._shard.encode
        batches = list(in_batches(records, lambda one: in_one_go(encode(one)), self._durable.batch_bytes_max))
        producer = records.producer if isinstance(records, TransactionalBatch) else None
        for batch in self._checked(records, batches):
            encoded = [encoded for _, encoded in batch]
            if producer is None:
                base = self._durable.append(encoded)
            else:
                base = self._durable.append_transactional(encoded, producer)
            for offset, (record, _) in enumerate(batch, base):
                state.apply(record, offset)
                self._shard.applied(record, state)

    def append_in_steps(self, records: Sequence[R], state: S) -> Steps[None]:
        """Append the records in steps, between which the caller leaves the state unchanged."""
        if isinstance(records, TransactionEnd):
            self._end(records, state)
            return
        batches: Batches[R] = Batches(self._durable.batch_bytes_max)
        for number, record in enumerate(records):
            encoded = self._shard.encode(record)
            batches.add(record, encoded if isinstance(encoded, tuple) else (yield from encoded))
            if number % _RECORDS_OF_A_STEP == 0:
                yield
        producer = records.producer if isinstance(records, TransactionalBatch) else None
        for batch in self._checked(records, batches.all):
            pairs = [encoded for _, encoded in batch]
            if producer is None:
                base = yield from self._durable.append_in_steps(pairs)
            else:
                base = self._durable.append_transactional(pairs, producer)
            for offset, (record, _) in enumerate(batch, base):
                state.apply(record, offset)
                self._shard.applied(record, state)
                if offset % _RECORDS_OF_A_STEP == 0:
                    yield

    def _end(self, records: TransactionEnd[R], state: S) -> None:
        """Append the marker of an ended transaction, then apply its record."""
        offset = self._durable.append_marker(records.marker)
        for record in records:
            state.apply(record, offset)
            self._shard.applied(record, state)

    def _checked(
        self, records: Sequence[R], batches: Sequence[list[tuple[R, KeyValue]]]
    ) -> Sequence[list[tuple[R, KeyValue]]]:
        """Return these batches in the form in which they are written. Raises KafkaError if one is too large."""
        if len(batches) > 1:
            self._check_sizes(batches)
            if isinstance(records, AtomicBatch):
                return [self._as_one(batches)]
        return batches

    def _as_one(self, batches: Sequence[Sequence[tuple[R, KeyValue]]]) -> list[tuple[R, KeyValue]]:
        """All batches joined into one. Raises KafkaError if its keys and values are too large for the log.

        The log itself refuses a batch that is too large only because of its headers.
        """
        one = [item for batch in batches for item in batch]
        size = sum(len(part or b"") for _, encoded in one for part in encoded)
        if size > self._durable.record_bytes_max:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {len(one)} records and {size} bytes cannot be split"
            )
        return one

    def _check_sizes(self, batches: Sequence[Sequence[tuple[R, KeyValue]]]) -> None:
        """Raise KafkaError for a record that is too large. A batch of several records is always small enough."""
        for batch in batches:
            size = sum(len(part or b"") for part in batch[0][1])
            if size > self._durable.record_bytes_max:
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"a record has {size} bytes")
