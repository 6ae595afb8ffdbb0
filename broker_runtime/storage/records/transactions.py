"""The transactions of one partition: which are open, and which are ended by a marker that is not replicated yet.

Pure. The last stable offset follows from them: a client that reads committed records gets none from
`Transactions.first_unstable` on. That is the first offset of the oldest transaction that is open, or whose marker lies
at the high watermark or above.

A `VerificationGuard` closes the gap between the verification of a transaction and its first append (KIP-890): an append
that was verified before the transaction ended, and arrives after its marker, would open a transaction that nobody ends.
"""

from collections import OrderedDict
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.records.unreplicated import UnreplicatedMarkers
from kafka_bytes.batches import NO_EPOCH, Header
from kafka_bytes.control import Marker, parse_marker
from kafka_bytes.errors import FormatError

NO_OFFSET = -1
ALL_STABLE = 2**63 - 1
"""Value of `first_unstable` while all transactions are ended and replicated."""
_EPOCH_MAX = 2**15 - 1
"""The epoch of a marker whose producer has used up its epochs: it has no greater one."""
_V2 = 2
"""The transaction protocol in which each transaction has its own epoch."""


class Ended(NamedTuple):
    """A transaction with records that a marker has ended.

    `last_stable_offset` is the first offset of the oldest transaction that is still open, or the offset after the
    marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class VerificationGuard:
    """The token of one producer's verification in one partition.

    Requests that verify at the same time share it. It remembers the lowest base sequence of the epoch: the batch with
    that sequence has to be the first one.
    """

    __slots__ = ("epoch", "is_v2", "lowest_sequence", "made_ms")

    def __init__(self, epoch: int, sequence: int, made_ms: int, *, is_v2: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.made_ms = made_ms
        self.is_v2 = is_v2


UNGUARDED = VerificationGuard(-1, 0, 0, is_v2=False)
"""The guard of an append whose transaction need not be verified, because transaction.partition.verification.enable is
false."""


class Transactions:
    """The open and the unreplicated transactions of one partition, and the guards of those that are being verified."""

    __slots__ = ("_guards", "_open", "first_unstable", "unreplicated")

    def __init__(self) -> None:
        self._open: OrderedDict[int, int] = OrderedDict()
        """First offset of each open transaction by producer id, the oldest transaction first."""
        self.unreplicated = UnreplicatedMarkers()
        self.first_unstable = ALL_STABLE
        self._guards: OrderedDict[int, VerificationGuard] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def clear(self) -> None:
        """Forget all transactions. Guards go with them: requests verify their transactions again."""
        self._open.clear()
        self.unreplicated.clear()
        self._guards.clear()
        self.first_unstable = ALL_STABLE

    def take_over(self, transactions: "Transactions") -> None:
        """Replace the transactions by these. Guards stay."""
        self._open = transactions._open
        self.unreplicated.replace_by(transactions.unreplicated)
        self.first_unstable = transactions.first_unstable

    @property
    def first_open(self) -> int | None:
        """Return the first offset of the oldest open transaction; None if none is open."""
        return next(iter(self._open.values()), None)

    def open_since(self, producer_id: int) -> int | None:
        """Return the first offset of the producer's open transaction; None if none is open."""
        return self._open.get(producer_id)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Record the first batch of a transaction."""
        self._open[producer_id] = first_offset
        if first_offset < self.first_unstable:
            self.first_unstable = first_offset

    def end(self, producer_id: int, offset: int) -> Ended | None:
        """Record the marker at `offset`. Returns the transaction that it ends; None if none is open."""
        first = self._open.pop(producer_id, None)
        if first is None:
            return None
        self.unreplicated.add(offset, first)
        oldest = self.first_open
        return Ended(producer_id, first, offset, offset + 1 if oldest is None else oldest)

    def settle(self, high_watermark: int) -> None:
        """Forget the ended transactions whose marker lies below the high watermark."""
        unreplicated = self.unreplicated
        unreplicated.forget_below(high_watermark)
        offsets = (self.first_open, unreplicated.first_offset)
        self.first_unstable = min((offset for offset in offsets if offset is not None), default=ALL_STABLE)

    def guard(self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, is_v2: bool) -> VerificationGuard:
        """Return the guard of a producer whose transaction is about to be verified."""
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = self._guards[producer_id] = VerificationGuard(epoch, sequence, now_ms, is_v2=is_v2)
        elif epoch > guard.epoch:
            guard.epoch, guard.lowest_sequence, guard.is_v2 = epoch, sequence, is_v2
        elif epoch == guard.epoch:
            guard.lowest_sequence = min(guard.lowest_sequence, sequence)
        return guard

    def check_opening(
        self, producer_id: int, sequence: int, guard: VerificationGuard | None, *, has_batches: bool
    ) -> None:
        """Check a batch that opens a transaction. Raises KafkaError unless it presents the producer's guard.

        Its sequence number must not be greater than another one that was announced for the same epoch, and in version 2
        it is 0 if the partition knows no batch of the producer. A batch without a sequence number has -1.
        """
        known = self._guards.get(producer_id)
        if guard is not UNGUARDED and (guard is None or known is not guard):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has no ongoing transaction in this partition, or its transaction has ended",
            )
        if known is None or sequence < 0:
            return
        lowest = 0 if known.is_v2 and not has_batches else known.lowest_sequence
        if sequence > lowest:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent sequence {sequence}; its transaction begins with {lowest} here",
            )

    def drop_guard(self, producer_id: int) -> None:
        """Drop the guard, because the transaction has its first batch now."""
        if self._guards:
            self._guards.pop(producer_id, None)

    def drop_guard_before(self, marker: Marker) -> None:
        """Drop the guard, because a marker has ended the transaction that was being verified.

        In version 2 the marker has the epoch of the next transaction, whose guard stays.
        """
        guard = self._guards.get(marker.producer_id)
        if guard is not None and not (guard.is_v2 and guard.epoch == marker.producer_epoch):
            del self._guards[marker.producer_id]

    def expire_guards(self, now_ms: int, expiration_ms: int, most: int | None) -> None:
        """Drop the guards of requests that never came back, and the oldest if there are more than `most`."""
        guards = self._guards
        while guards:
            producer_id, guard = next(iter(guards.items()))
            if now_ms - guard.made_ms < expiration_ms and (most is None or len(guards) <= most):
                return
            del guards[producer_id]


def read_marker(batch: bytes | memoryview, header: Header) -> Marker | None:
    """Return the marker of a control batch in the log; None if it ends no transaction.

    The batch has the right checksum, so a leader has written a malformed control record like this: it ends nothing.
    """
    try:
        return parse_marker(batch, header)
    except FormatError:
        return None


def replayed_marker(batch: bytes | memoryview, header: Header) -> Marker | None:
    """Return the marker of a control batch that is replayed; None if it ends no transaction.

    A marker that a cleaning has emptied stays because it fences its producer. It counts as a marker without an epoch of
    a coordinator.
    """
    if not header.record_count and header.producer_id >= 0:
        return Marker(header.producer_id, header.producer_epoch, is_commit=True, coordinator_epoch=NO_EPOCH)
    return read_marker(batch, header)


def is_marker_late(marker: Marker, epoch: int, *, is_open: bool) -> bool:
    """Return whether the marker is older than the producer's `epoch` in the partition.

    In version 2 a marker has a greater epoch than the records that it ends. One with the same epoch is late, too,
    unless no transaction is open: then it repeats the marker that has ended the transaction.
    """
    if marker.transaction_version < _V2 or marker.producer_epoch != epoch:
        return marker.producer_epoch < epoch
    return is_open and epoch != _EPOCH_MAX
