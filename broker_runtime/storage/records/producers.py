"""The state that a partition keeps of producers: epoch, sequence, last five batches and open transaction of each.

Pure except for the bytes of Kafka's .snapshot files, which it encodes and decodes. As in Kafka, a snapshot has only the
last batch of each producer; a start replays the batches after the snapshot. The rules are those of KIP-98, KIP-360 and
KIP-890; `transactions` has what they need to know of all open transactions together.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.records.transactions import (
    NO_OFFSET,
    Ended,
    Transactions,
    VerificationGuard,
    is_marker_late,
)
from kafka_bytes.batches import CONTROL, NO_EPOCH, NO_SEQUENCE, TRANSACTIONAL, Header, advance_sequence
from kafka_bytes.checksum import crc32c
from kafka_bytes.control import Marker

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


class Producer:
    """State of one producer in a partition; `batches` is empty if only a marker is known of its epoch.

    `entry` is its encoded entry in a snapshot: rolling a log leaves no time to encode a hundred thousand of them.
    """

    __slots__ = ("batches", "coordinator_epoch", "entry", "epoch", "first_offset", "seen_ms", "timestamp")

    def __init__(
        self,
        producer_id: int,
        epoch: int,
        batches: tuple[StoredBatch, ...],
        seen_ms: int,
        timestamp: int,
        coordinator_epoch: int = NO_EPOCH,
        first_offset: int = NO_OFFSET,
    ) -> None:
        self.epoch = epoch
        self.seen_ms = seen_ms
        self.batches = batches
        self.timestamp = timestamp
        """Time of the newest batch or marker, in ms."""
        self.coordinator_epoch = coordinator_epoch
        """Epoch of the transaction coordinator in the last marker; -1 without one."""
        self.first_offset = first_offset
        """First offset of the open transaction; -1 if none is open."""
        if batches:
            _, last_sequence, begin, last_offset, _ = batches[-1]
            delta = last_offset - begin
        else:
            last_sequence, last_offset, delta = NO_SEQUENCE, NO_OFFSET, 0
        self.entry = _ENTRY.pack(
            producer_id, epoch, last_sequence, last_offset, delta, seen_ms, coordinator_epoch, first_offset
        )

    def add(self, producer_id: int, batch: StoredBatch, now_ms: int) -> None:
        """Add a batch of the same epoch outside of a transaction: most batches are such."""
        self.batches = (*self.batches[1 - BATCHES_KEPT :], batch)
        self.seen_ms = now_ms
        _, last_sequence, begin, last_offset, self.timestamp = batch
        self.entry = _ENTRY.pack(
            producer_id,
            self.epoch,
            last_sequence,
            last_offset,
            last_offset - begin,
            now_ms,
            self.coordinator_epoch,
            self.first_offset,
        )

    @property
    def last_sequence(self) -> int:
        """Return the last sequence number of the epoch; -1 if the epoch has no batch here."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Return the last offset of the newest batch; -1 if only a marker is known."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET


class ProducerStates:
    """The idempotent and transactional producers of one partition, by id.

    A snapshot of their states lies beside the log's segments.
    """

    def __init__(self) -> None:
        self._producers: OrderedDict[int, Producer] = OrderedDict()
        """Producers in the order of their last batch, the oldest first."""
        self.transactions = Transactions()

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        """Yield the id and the state of each known producer. Producers may change meanwhile."""
        return iter(list(self._producers.items()))

    def take_over(self, states: "ProducerStates") -> None:
        """Replace the states by others of the same log, for example by none. Guards stay."""
        self._producers = states._producers
        self.transactions.take_over(states.transactions)

    def needs_verification(self, producer_id: int, epoch: int) -> bool:
        """Return whether a transactional batch would open a transaction, and so has to be verified (KIP-890)."""
        state = self._producers.get(producer_id)
        return state is None or state.first_offset < 0 or state.epoch != epoch

    def guard(self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, is_v2: bool) -> VerificationGuard:
        """Return the guard for the verification of a transaction. Raises KafkaError for an old epoch."""
        state = self._producers.get(producer_id)
        if state is not None and epoch < state.epoch:
            raise _fenced(producer_id, epoch, state)
        return self.transactions.guard(producer_id, epoch, sequence, now_ms, is_v2=is_v2)

    def duplicate_or_check(
        self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int, *, is_transactional: bool = False
    ) -> StoredBatch | None:
        """Return the stored batch that the given batch repeats; None for a batch that may be appended.

        Raises KafkaError for a batch that must not be appended. A producer that the partition does not know (expired,
        or its batches deleted) may begin with any sequence.
        """
        state = self._producers.get(producer_id)
        if state is None:
            return None
        if epoch == state.epoch:
            for batch in state.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
            expected = advance_sequence(state.batches[-1].last_sequence, 1) if state.batches else 0
        elif epoch < state.epoch:
            raise _fenced(producer_id, epoch, state)
        else:
            expected = 0 if state.epoch != NO_EPOCH else first_sequence
        if first_sequence != expected:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} with epoch {epoch} sent sequence {first_sequence}; expected {expected}",
            )
        if state.first_offset >= 0 and not is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} sent records outside of a transaction while its transaction is open",
            )
        return None

    def duplicate_or_check_transactional(
        self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int, guard: VerificationGuard | None
    ) -> StoredBatch | None:
        """Return the stored batch that a transactional batch repeats; None for one that may be appended.

        The batch that opens a transaction has to present its guard. Raises KafkaError for a batch that must not be
        appended. A batch of a coordinator has no sequence number (-1), and repeats none.
        """
        state = self._producers.get(producer_id)
        if state is None:
            self.transactions.check_opening(producer_id, first_sequence, guard, has_batches=False)
            return None
        if epoch < state.epoch:
            raise _fenced(producer_id, epoch, state)
        if epoch == state.epoch and first_sequence >= 0:
            for batch in state.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
        if state.first_offset < 0 or epoch != state.epoch:
            self.transactions.check_opening(producer_id, first_sequence, guard, has_batches=bool(state.batches))
        if first_sequence >= 0:
            self.duplicate_or_check(producer_id, epoch, first_sequence, last_sequence, is_transactional=True)
        return None

    def record(
        self, producer_id: int, epoch: int, batch: StoredBatch, now_ms: int, *, is_transactional: bool = False
    ) -> None:
        """Record an appended batch."""
        state = self._producers.get(producer_id)
        if state is not None and state.epoch == epoch and not is_transactional:
            state.add(producer_id, batch, now_ms)
            self._producers.move_to_end(producer_id)
            return
        before: tuple[StoredBatch, ...] = ()
        coordinator_epoch, first_offset = NO_EPOCH, NO_OFFSET
        if state is not None:
            if state.epoch == epoch:
                before = state.batches[1 - BATCHES_KEPT :]
            coordinator_epoch, first_offset = state.coordinator_epoch, state.first_offset
        if is_transactional:
            if first_offset < 0:
                first_offset = batch.first_offset
                self.transactions.begin(producer_id, first_offset)
            self.transactions.drop_guard(producer_id)
        self._producers[producer_id] = Producer(
            producer_id, epoch, (*before, batch), now_ms, batch.timestamp, coordinator_epoch, first_offset
        )
        self._producers.move_to_end(producer_id)

    def check_marker(self, marker: Marker) -> None:
        """Raise KafkaError for a marker of an old producer epoch, or of a coordinator that was replaced."""
        state = self._producers.get(marker.producer_id)
        if state is None:
            return
        if is_marker_late(marker, state.epoch, is_open=state.first_offset >= 0):
            raise _fenced(marker.producer_id, marker.producer_epoch, state)
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker for producer {marker.producer_id} has coordinator epoch {marker.coordinator_epoch}; the "
                f"partition knows {state.coordinator_epoch}",
            )

    def end(self, marker: Marker, offset: int, timestamp: int, now_ms: int) -> Ended | None:
        """Record the appended marker at `offset`, and return the transaction that it ends; None if none is open.

        The marker's epoch counts even if no transaction is open: it fences the producer. The known batches stay unless
        the epoch changes.
        """
        producer_id, epoch = marker.producer_id, marker.producer_epoch
        state = self._producers.get(producer_id)
        batches = state.batches if state is not None and state.epoch == epoch else ()
        coordinator_epoch = marker.coordinator_epoch
        if coordinator_epoch < 0 and state is not None:
            coordinator_epoch = state.coordinator_epoch
        self._producers[producer_id] = Producer(producer_id, epoch, batches, now_ms, timestamp, coordinator_epoch)
        self._producers.move_to_end(producer_id)
        self.transactions.drop_guard_before(marker)
        return self.transactions.end(producer_id, offset)

    def replay(self, header: Header, now_ms: int) -> None:
        """Record a batch of records that is in the log already; not a marker.

        Its producer counts as seen at `now_ms`, because the batch's own time is unreliable.
        """
        if header.producer_id < 0 or header.attributes & CONTROL:
            return
        stored = StoredBatch(
            header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp
        )
        is_transactional = header.attributes & TRANSACTIONAL != 0
        self.record(header.producer_id, header.producer_epoch, stored, now_ms, is_transactional=is_transactional)

    def expire(self, now_ms: int, expiration_ms: int, most: int | None = None) -> Steps[None]:
        """Forget all producers that were silent for `expiration_ms`, and the oldest if there are more than `most`.

        Producers may change between two steps. A forgotten producer may begin with any sequence.

        A producer that was last seen in the future, because the clock was set back, counts as seen now. Otherwise it
        would prevent the producers after it from being forgotten.
        """
        self.transactions.expire_guards(now_ms, expiration_ms, most)
        # Each producer is looked at once at most: those with an open transaction stay.
        for checked in range(1, len(self._producers) + 1):
            if not self._producers:
                return
            producer_id = next(iter(self._producers))
            state = self._producers[producer_id]
            is_too_many = most is not None and len(self._producers) > most
            is_due = is_too_many or now_ms - state.seen_ms >= expiration_ms
            if (state.first_offset >= 0 and is_due) or (state.seen_ms > now_ms and not is_too_many):
                state.seen_ms = now_ms
                self._producers.move_to_end(producer_id)
            elif is_due:
                del self._producers[producer_id]
            else:
                return
            if checked % _FORGOTTEN_IN_A_STEP == 0:
                yield

    def encode(self) -> bytes:
        entries = [state.entry for state in self._producers.values()]
        body = b"".join([_COUNT.pack(len(entries)), *entries])
        return _HEAD.pack(_SNAPSHOT_VERSION, crc32c(body)) + body

    def decode(self, content: bytes) -> None:
        """Replace the states by those of a snapshot. Raises ValueError for a damaged snapshot."""
        if len(content) < _HEAD.size + _COUNT.size:
            raise ValueError("the producer snapshot is cut short")
        version, crc = _HEAD.unpack_from(content)
        body = memoryview(content)[_HEAD.size :]
        (count,) = _COUNT.unpack_from(body)
        if version != _SNAPSHOT_VERSION or crc32c(body) != crc or len(body) != _COUNT.size + count * _ENTRY.size:
            raise ValueError("the producer snapshot is damaged")
        entries = sorted(self._entries(body[_COUNT.size :]), key=lambda entry: entry[1].seen_ms)
        self._producers = OrderedDict(entries)
        self.transactions.clear()
        known = self._producers.items()
        in_order = sorted((state.first_offset, producer_id) for producer_id, state in known if state.first_offset >= 0)
        for first_offset, producer_id in in_order:
            self.transactions.begin(producer_id, first_offset)

    @staticmethod
    def _entries(body: memoryview) -> Iterable[tuple[int, Producer]]:
        for fields in _ENTRY.iter_unpack(body):
            producer_id, epoch, sequence, last_offset, delta, seen_ms, coordinator_epoch, first_offset = fields
            batches: tuple[StoredBatch, ...] = ()
            if last_offset >= 0:
                first = NO_SEQUENCE if sequence < 0 else (sequence - delta) & 0x7FFFFFFF
                batches = (StoredBatch(first, sequence, last_offset - delta, last_offset, seen_ms),)
            yield (
                producer_id,
                Producer(producer_id, epoch, batches, seen_ms, seen_ms, coordinator_epoch, first_offset),
            )


def _fenced(producer_id: int, epoch: int, state: Producer) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {producer_id} sent epoch {epoch}; the partition has epoch {state.epoch}",
    )
