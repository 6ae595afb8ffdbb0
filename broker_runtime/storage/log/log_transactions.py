"""The transactions of one log: markers, the last stable offset, aborted transactions, and guards of verifications.

The rules are in `records.producers`, and the aborted transactions of a segment in `segment.aborted_index`. KIP-98 and
KIP-890.
"""

from bisect import bisect_right
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

from broker_runtime.storage.log.log_reads import LogReads
from broker_runtime.storage.records.retention import is_roll_due
from broker_runtime.storage.records.transactions import VerificationGuard
from broker_runtime.storage.segment.aborted_index import DamagedAbortedIndexError
from broker_runtime.storage.segment.segment import Segment
from broker_runtime.storage.segment.segment_indexes import begin_aborted
from kafka_bytes.batches import LOG_APPEND_TIME, NO_TIMESTAMP, OVERHEAD_BYTES
from kafka_bytes.control import Marker, encode_marker

PREFIX = Struct(">qii")
"""The fields of a batch that its checksum does not include: base offset, length, leader epoch."""
PREFIX_BYTES = PREFIX.size
_ABORTED_OF_A_READ = 1_000
"""Limit for the aborted transactions that end in the records of one read: each of them is listed for the client."""
_BASE_OFFSET = attrgetter("base_offset")


class AppendResult(NamedTuple):
    """The fields of a produce response for one batch. The append time is -1 if producers set the timestamps."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int


class LogTransactions(LogReads):
    """A log with the transactions of its producers."""

    __slots__ = ()

    @property
    def last_stable_offset(self) -> int:
        """Return the offset below which all records belong to no transaction, or to one that is ended and replicated.

        It is the high watermark while no transaction is open. Records were perhaps deleted up to a higher offset than
        the first one of an open transaction.
        """
        unstable = self.transactions.first_unstable
        if unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    def aborted_transactions(self, first: int, upper: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of the aborted transactions with records from `first` up to `upper`.

        Transactions that began before `first` are among them. Raises KafkaError if an index cannot be read.
        """
        found: list[tuple[int, int]] = []
        if not self.files.has_aborted:
            return found
        segments = self.segments
        for number in range(max(bisect_right(segments, first, key=_BASE_OFFSET) - 1, 0), len(segments)):
            index = segments[number].indexes.aborted
            try:
                if index is not None and index.collect(first, upper, found):
                    break
            except OSError as error:
                raise self._health.failure("read", error) from error
            except DamagedAbortedIndexError:
                self._note_unreadable(segments[number])
                raise
        return found

    def limited_read(self, first: int) -> int | None:
        """Return an offset up to which a read from `first` on meets at most `_ABORTED_OF_A_READ` aborted transactions.

        Those that are still open there are not counted. None if a read has no such limit. Raises KafkaError if an index
        cannot be read.
        """
        if not self.files.has_aborted:
            return None
        segments = self.segments
        segment = segments[max(bisect_right(segments, first, key=_BASE_OFFSET) - 1, 0)]
        try:
            index = segment.indexes.aborted
            return None if index is None else index.end_of(first, _ABORTED_OF_A_READ)
        except OSError as error:
            raise self._health.failure("read", error) from error
        except DamagedAbortedIndexError:
            self._note_unreadable(segment)
            raise

    def append_marker(self, marker: Marker, *, leader_epoch: int) -> AppendResult:
        """Append the control batch that ends a producer's transaction, also if no transaction is open (KIP-98).

        Raises KafkaError for a marker of an old producer epoch, or of a coordinator that was replaced; then the log
        stays unchanged.
        """
        files = self.files
        if not self._health.usable:
            files.make_usable()
        files.producers.check_marker(marker)
        now_ms, base = files.place.clock.wall_ms(), self.log_end_offset
        stamps = self.config.message_timestamp_type != "CreateTime"
        batch = encode_marker(marker, now_ms, LOG_APPEND_TIME if stamps else 0)
        segment = self.segments[-1]
        if segment.size and is_roll_due(segment, self.config, len(batch), base, now_ms, now_ms):
            segment = files.roll()
        if leader_epoch > files.epochs.latest:
            files.begin_epoch(leader_epoch, base)
        files.write(segment, [PREFIX.pack(base, len(batch) - OVERHEAD_BYTES, leader_epoch), batch[PREFIX_BYTES:]])
        if segment.commit(len(batch), base, now_ms, self.config.index_interval_bytes) and segment.indexes.write_due:
            files.write_indexes_soon(segment)
        self.note_end(segment, marker, base, now_ms, now_ms)
        self.extend_to(base + 1)
        return AppendResult(base, base, now_ms if stamps else NO_TIMESTAMP, self.log_start_offset)

    def needs_verification(self, producer_id: int, epoch: int) -> bool:
        """Return whether a transactional batch would open a transaction, and so has to be verified (KIP-890)."""
        return self.files.producers.needs_verification(producer_id, epoch)

    def verification_guard(self, producer_id: int, epoch: int, sequence: int, *, is_v2: bool) -> VerificationGuard:
        """Return the guard to present with the append, before the coordinator is asked about the transaction.

        `sequence` is the base sequence of the batch. Raises KafkaError for an old epoch.
        """
        return self.files.producers.guard(producer_id, epoch, sequence, self.files.place.clock.wall_ms(), is_v2=is_v2)

    def note_end(self, segment: Segment, marker: Marker, offset: int, timestamp: int, now_ms: int) -> None:
        """Record the end of a transaction, by a marker that the segment has at `offset`."""
        files = self.files
        ended = files.producers.end(marker, offset, timestamp, now_ms)
        if ended is None or marker.is_commit:
            return
        index = segment.indexes.aborted
        if index is None:
            index = begin_aborted(segment.indexes)
            files.syncs.names_made += 1
            files.has_aborted = True
        index.append(ended)
        try:
            index.write()
        except OSError as error:
            # The marker is stored. The entry stays in memory, and the next sync waits until it is written.
            files.place.on_write_failed(f"writing the aborted transactions of {files.place}", error)
