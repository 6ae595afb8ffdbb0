"""The state that a partition keeps of idempotent producers: epoch, sequence and last five batches of each.

Pure except for the bytes of Kafka's .snapshot files, which it encodes and decodes. As in Kafka, a snapshot has only the
last batch of each producer; a start replays the batches after the snapshot.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps
from kafka_bytes.batches import NO_EPOCH, Header, advance_sequence
from kafka_bytes.checksum import crc32c

BATCHES_KEPT = 5
_FORGOTTEN_IN_A_STEP = 128
"""Producers that `expire` forgets between two breaks; each takes less than a microsecond."""
_SNAPSHOT_VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


class StoredBatch(NamedTuple):
    """A batch that a producer may send again: its sequence numbers, its offsets and its timestamp."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class _Producer:
    """State of one producer; `batches` has at least one.

    `entry` is its encoded entry in a snapshot: rolling a log leaves no time to encode a hundred thousand of them.
    """

    __slots__ = ("batches", "entry", "epoch", "seen_ms")

    def __init__(self, producer_id: int, epoch: int, batches: tuple[StoredBatch, ...], seen_ms: int) -> None:
        self.epoch = epoch
        self.seen_ms = seen_ms
        self.batches = batches
        _, last_sequence, first_offset, last_offset, _ = batches[-1]
        delta = last_offset - first_offset
        self.entry = _ENTRY.pack(producer_id, epoch, last_sequence, last_offset, delta, seen_ms, -1, -1)


class ProducerStates:
    """The idempotent producers of one partition, by id; a snapshot of them lies beside the log's segments."""

    def __init__(self) -> None:
        self._producers: OrderedDict[int, _Producer] = OrderedDict()
        """Producers in the order of their last batch, the oldest first."""

    def __len__(self) -> int:
        return len(self._producers)

    def newest_batches(self) -> Iterator[tuple[int, int, StoredBatch]]:
        """Yield (producer id, epoch, its newest batch) of each currently known producer."""
        return ((producer_id, state.epoch, state.batches[-1]) for producer_id, state in list(self._producers.items()))

    def clear(self) -> None:
        self._producers.clear()

    def duplicate_or_check(
        self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int
    ) -> StoredBatch | None:
        """Return the stored batch that this one repeats; None if it may be appended. Raises KafkaError if it may not.

        A producer that the partition does not know (expired, or its batches deleted) may begin with any sequence.
        """
        state = self._producers.get(producer_id)
        if state is None:
            return None
        if epoch == state.epoch:
            for batch in state.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
        if epoch < state.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} sent epoch {epoch}; the partition has epoch {state.epoch}",
            )
        if epoch != state.epoch:
            if first_sequence == 0 or state.epoch == NO_EPOCH:
                return None
            expected = 0
        else:
            expected = advance_sequence(state.batches[-1].last_sequence, 1)
        if first_sequence != expected:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} with epoch {epoch} sent sequence {first_sequence}; expected {expected}",
            )
        return None

    def record(self, producer_id: int, epoch: int, batch: StoredBatch, now_ms: int) -> None:
        state = self._producers.get(producer_id)
        before = () if state is None or state.epoch != epoch else state.batches[1 - BATCHES_KEPT :]
        self._producers[producer_id] = _Producer(producer_id, epoch, (*before, batch), now_ms)
        self._producers.move_to_end(producer_id)

    def replay(self, header: Header, now_ms: int) -> None:
        """Record a batch found in the log at start, with the current time: the batch's own time is unreliable."""
        if header.producer_id < 0:
            return
        stored = StoredBatch(
            header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp
        )
        self.record(header.producer_id, header.producer_epoch, stored, now_ms)

    def expire(self, now_ms: int, expiration_ms: int, most: int | None = None) -> Steps[None]:
        """Forget all producers that were silent for `expiration_ms`, and the oldest ones if there are more than `most`.

        They may change between two steps. A producer that is forgotten may begin with any sequence.

        A producer that was last seen in the future, because the clock was set back, counts as seen now. Otherwise it
        would prevent the producers after it from being forgotten.
        """
        checked = 0
        while self._producers:
            producer_id = next(iter(self._producers))
            state = self._producers[producer_id]
            is_too_many = most is not None and len(self._producers) > most
            if state.seen_ms > now_ms and not is_too_many:
                state.seen_ms = now_ms
                self._producers.move_to_end(producer_id)
            elif is_too_many or now_ms - state.seen_ms >= expiration_ms:
                del self._producers[producer_id]
            else:
                return
            checked += 1
            if checked % _FORGOTTEN_IN_A_STEP == 0:
                yield

    def encode(self) -> bytes:
        entries = [state.entry for state in self._producers.values()]
        body = b"".join([_COUNT.pack(len(entries)), *entries])
        return _HEAD.pack(_SNAPSHOT_VERSION, crc32c(body)) + body

    def decode(self, content: bytes) -> None:
        """Replace the state by a snapshot's. Raises ValueError when the snapshot is damaged."""
        if len(content) < _HEAD.size + _COUNT.size:
            raise ValueError("the producer snapshot is cut short")
        version, crc = _HEAD.unpack_from(content)
        body = memoryview(content)[_HEAD.size :]
        (count,) = _COUNT.unpack_from(body)
        if version != _SNAPSHOT_VERSION or crc32c(body) != crc or len(body) != _COUNT.size + count * _ENTRY.size:
            raise ValueError("the producer snapshot is damaged")
        entries = sorted(self._entries(body[_COUNT.size :]), key=lambda entry: entry[1].seen_ms)
        self._producers = OrderedDict(entries)

    @staticmethod
    def _entries(body: memoryview) -> Iterable[tuple[int, _Producer]]:
        for producer_id, epoch, sequence, last_offset, delta, seen_ms, _, _ in _ENTRY.iter_unpack(body):
            first = (sequence - delta) & 0x7FFFFFFF
            batch = StoredBatch(first, sequence, last_offset - delta, last_offset, seen_ms)
            yield producer_id, _Producer(producer_id, epoch, (batch,), seen_ms)
