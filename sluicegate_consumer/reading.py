"""One assigned partition: the records fetched and not delivered, and the position of the application.

Pure. Positions are offsets of the next record; negative ones are the special offsets of ListOffsets.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from kafka_bytes.batches import ParsedRecord
from kafka_bytes.push.partition_text import NO_LEADER
from sluicegate_consumer.record import Record, TopicPartition
from sluicegate_consumer.wire.batches import Batch, records
from sluicegate_consumer.wire.push import PartitionOffset

_BATCH_BYTES = 440
"""Memory of a waiting batch in addition to its records. Producers that do not wait send one record in each batch."""


class PartitionReader:
    """The reader of a partition, from StartFetcher until the next StopFetcher has been answered.

    Then it is `dropped`.
    """

    __slots__ = (
        "_at",
        "_batches",
        "_delivered",
        "_open",
        "_opened_bytes",
        "_revoked",
        "_unpacked_bytes_max",
        "acknowledged",
        "buffered_bytes",
        "corrupt_fetches",
        "dropped",
        "fetch_offset",
        "leader",
        "leader_epoch",
        "on_room",
        "out_of_range",
        "queued",
        "stream",
        "tp",
    )

    def __init__(
        self, part: PartitionOffset, stream: int, unpacked_bytes_max: int, on_room: Callable[[], None]
    ) -> None:
        self.tp = TopicPartition(part.topic, part.partition)
        self.stream = stream
        self.leader = part.leader
        self.leader_epoch = -1
        """Leader epoch of the partition; -1 if unknown. The leader then does not check it."""
        self.fetch_offset = part.offset
        self.acknowledged = part.offset
        self.out_of_range = False
        self.corrupt_fetches = 0
        self.dropped = False
        """Whether nothing is delivered any more."""
        self.queued = False
        """Whether the partition is in the queue of its stream."""
        self.buffered_bytes = 0
        self.on_room = on_room
        """Called when the amount of buffered data has decreased."""
        self._revoked = False
        self._unpacked_bytes_max = unpacked_bytes_max
        self._at = (part.topic, part.partition, stream)
        self._delivered = part.offset
        self._batches: deque[Batch] = deque()
        self._open: Iterator[ParsedRecord] | None = None
        """The batch that is being delivered. `_opened_bytes` is its share of the buffer."""
        self._opened_bytes = 0

    @property
    def told(self) -> int:
        """Return the position for the coordinator: the offset after the last acknowledged record.

        If all delivered records are acknowledged and none waits, the position is the next offset to fetch. That is
        after transaction markers and records that compaction has removed.
        """
        if self.acknowledged == self._delivered and not self._batches and self._open is None:
            return self.fetch_offset
        return self.acknowledged

    @property
    def fetchable(self) -> bool:
        return not (self.dropped or self.out_of_range) and self.leader != NO_LEADER

    def found(self, offset: int) -> None:
        """Set the start offset `offset`, which ListOffsets has returned."""
        self.fetch_offset = self.acknowledged = self._delivered = offset

    def take(self, batches: Sequence[Batch], next_offset: int) -> None:
        """Add batches that were fetched from `fetch_offset` on."""
        self._batches.extend(batches)
        self.buffered_bytes += sum(_BATCH_BYTES + len(batch.packed) for batch in batches)
        self.fetch_offset = next_offset
        self.corrupt_fetches = 0

    @property
    def has_more(self) -> bool:
        return self._open is not None or bool(self._batches)

    def next_record(self) -> Record | None:
        """Return the next record; None at the end of each batch, so that partitions alternate.

        Raises CorruptRecordsError.
        """
        if self._open is None:
            if not self._batches:
                return None
            batch = self._batches.popleft()
            self._opened_bytes = _BATCH_BYTES + len(batch.packed)
            self._open = records(batch, self._unpacked_bytes_max)
        for offset, timestamp_ms, key, value, headers in self._open:
            # A batch begins where its producer began it, which may be before the requested offset.
            if offset >= self._delivered:
                self._delivered = offset + 1
                return Record(self, self._at, offset, timestamp_ms, key, value, headers)
        self._open = None
        self.buffered_bytes -= self._opened_bytes
        self.on_room()
        return None

    def acknowledge(self, offset: int) -> bool:
        """Acknowledge the records up to `offset`, from any thread. Return False for a revoked partition.

        Storing one number is atomic.
        """
        if self._revoked:
            return False
        if offset >= self.acknowledged:
            self.acknowledged = offset + 1
        return True

    def drop(self) -> None:
        """Discard the partition's undelivered records. Delivered ones can still be acknowledged."""
        self.dropped = True
        if self._batches or self._open is not None:
            # `told` stays at the acknowledged offset.
            self._batches.clear()
            self._open = None
            self.fetch_offset = self._delivered
        self.buffered_bytes = 0

    def revoke(self) -> None:
        """Drop the partition, so that no record can be acknowledged any more."""
        self.drop()
        self._revoked = True
