"""One partition of an assignment: what has been fetched and not been delivered, and how far the application has come.

Pure. Positions are offsets of the next record; below 0 they are places of the log that ListOffsets knows.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from sluicegate_consumer.record import Record, TopicPartition
from sluicegate_consumer.wire.batches import Batch, Parsed, records
from sluicegate_consumer.wire.push import NO_LEADER, PartitionOffset

_BATCH_BYTES = 440
"""What a batch that waits takes in memory beside its records. Producers that do not wait send one record in each."""


class PartitionReader:
    """From a StartFetcher until the StopFetcher after it has been answered; then it is `dropped`."""

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
        """-1: not known, and not checked by the leader."""
        self.fetch_offset = part.offset
        self.acknowledged = part.offset
        self.out_of_range = False
        self.corrupt_fetches = 0
        self.dropped = False
        """Nothing is delivered any more."""
        self.queued = False
        """It is in the queue of its stream."""
        self.buffered_bytes = 0
        self.on_room = on_room
        """Called when there is less to deliver than there was."""
        self._revoked = False
        self._unpacked_bytes_max = unpacked_bytes_max
        self._at = (part.topic, part.partition, stream)
        self._delivered = part.offset
        self._batches: deque[Batch] = deque()
        self._open: Iterator[Parsed] | None = None
        """The batch that is being delivered, and what it takes of the buffer."""
        self._opened_bytes = 0

    @property
    def told(self) -> int:
        """The position for the coordinator: behind what was acknowledged.

        Where that is all that was delivered, and nothing waits, it is the next offset to fetch: behind markers of
        transactions and what compaction has removed.
        """
        if self.acknowledged == self._delivered and not self._batches and self._open is None:
            return self.fetch_offset
        return self.acknowledged

    @property
    def fetchable(self) -> bool:
        return not (self.dropped or self.out_of_range) and self.leader != NO_LEADER

    def found(self, offset: int) -> None:
        """Where the place is that it shall be read from."""
        self.fetch_offset = self.acknowledged = self._delivered = offset

    def take(self, batches: Sequence[Batch], next_offset: int) -> None:
        """Fetched from `fetch_offset` on."""
        self._batches.extend(batches)
        self.buffered_bytes += sum(_BATCH_BYTES + len(batch.packed) for batch in batches)
        self.fetch_offset = next_offset
        self.corrupt_fetches = 0

    @property
    def has_more(self) -> bool:
        return self._open is not None or bool(self._batches)

    def next_record(self) -> Record | None:
        """None at the end of each batch, so that the partitions of a stream take turns. Raises CorruptRecordsError."""
        if self._open is None:
            if not self._batches:
                return None
            batch = self._batches.popleft()
            self._opened_bytes = _BATCH_BYTES + len(batch.packed)
            self._open = records(batch, self._unpacked_bytes_max)
        for offset, timestamp_ms, key, value, headers in self._open:
            # A batch begins where its producer began it, which may be before the offset that was asked for.
            if offset >= self._delivered:
                self._delivered = offset + 1
                return Record(self, self._at, offset, timestamp_ms, key, value, headers)
        self._open = None
        self.buffered_bytes -= self._opened_bytes
        self.on_room()
        return None

    def acknowledge(self, offset: int) -> bool:
        """Also by another thread: it is one assignment."""
        if self._revoked:
            return False
        if offset >= self.acknowledged:
            self.acknowledged = offset + 1
        return True

    def drop(self) -> None:
        """What was not delivered is not delivered any more; what was can be acknowledged still."""
        self.dropped = True
        if self._batches or self._open is not None:
            # `told` stays what was acknowledged.
            self._batches.clear()
            self._open = None
            self.fetch_offset = self._delivered
        self.buffered_bytes = 0

    def revoke(self) -> None:
        """Nothing can be acknowledged any more."""
        self.drop()
        self._revoked = True
