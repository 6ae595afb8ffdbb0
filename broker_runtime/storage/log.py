"""One partition's log: the produce and fetch paths over its segments.

The produce path: one unpack of the batch header from the request's bytes, one checksum over them, one pwritev of the
patched header fields and the untouched rest into the page cache, a few integers; records are neither copied nor
decompressed. Nothing counts before it is written whole, so a full disk or a crash leaves nothing half-written to read.
Knows nothing of topics' leaders, requests or sockets.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from crc32c import crc32c

from broker_runtime.clock import Clock
from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.batch import (
    CRC,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    advance_sequence,
)
from broker_runtime.storage.epochs import CHECKPOINT, LeaderEpochs
from broker_runtime.storage.filesystem import Buffer, FileSystem, replace_file
from broker_runtime.storage.following import leaders_batches
from broker_runtime.storage.producers import ProducerStates, StoredBatch
from broker_runtime.storage.retention import count_expired, is_idle_roll_due, is_roll_due
from broker_runtime.storage.segment import Segment
from broker_runtime.storage.snapshots import take_snapshot
from broker_runtime.storage.validation import RawHeader, check_batch
from broker_runtime.wire.reply import FileRegion

_PREFIX = Struct(">qii")
_PREFIX_BYTES = _PREFIX.size
NO_TIMESTAMP = -1


class AppendResult(NamedTuple):
    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class Found(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where a log lives and what it is built on."""

    folder: Path
    topic: str
    partition: int
    topic_id: UUID
    fs: FileSystem
    clock: Clock


@dataclass(slots=True)
class LoadedLog:
    """What loading the folder found; a new log has one empty segment."""

    segments: list[Segment]
    producers: ProducerStates
    log_start_offset: int = 0
    recovery_point: int = 0
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)


class Log:
    """`sole_replica` lets each append move the high watermark; replication sets it False and moves it itself."""

    def __init__(self, place: LogPlace, config: TopicConfig, loaded: LoadedLog) -> None:
        self.place = place
        self.topic = place.topic
        self.partition = place.partition
        self.topic_id = place.topic_id
        self.config = config
        self.segments = loaded.segments
        self.producers = loaded.producers
        self.log_start_offset = loaded.log_start_offset
        self.recovery_point = loaded.recovery_point
        self.log_end_offset = self._active.next_offset
        self.high_watermark = self.log_end_offset
        self.epochs = loaded.epochs
        self.sole_replica = True
        self.snapshot_offset = -1
        self.last_flush_ms = place.clock.wall_ms()
        self.on_start_moved: Callable[[], None] | None = None
        self.renamed: list[tuple[int, list[Path]]] = []
        """(wall ms, files) of segments that are no longer part of the log and whose files go later."""
        self._clock = place.clock
        self._offline: str | None = None
        self._tail_is_dirty = False
        self._new_names = True
        self._waiters: dict[int, tuple[int, Callable[[], None]]] = {}
        self._waiter_ids = 0
        self._end_waiters: dict[int, tuple[int, Callable[[], None]]] = {}

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def _active(self) -> Segment:
        return self.segments[-1]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    # The produce path

    def append(self, records: memoryview, *, leader_epoch: int = 0) -> AppendResult:
        """Store one batch as a client sent it. Raises KafkaError; then the log is as it was before."""
        config = self.config
        now_ms = self._clock.wall_ms()
        raw = check_batch(records, config, now_ms)
        if self._offline is not None or self._tail_is_dirty:
            self._make_usable()
        producer_id = raw[9]
        if producer_id >= 0:
            repeated = self._check_producer(raw)
            if repeated is not None:
                return repeated
        base = self.log_end_offset
        last = base + raw[6]
        size = len(records)
        max_timestamp = raw[8]
        appended_ms = NO_TIMESTAMP
        buffers: list[Buffer]
        if config.message_timestamp_type == "CreateTime":
            buffers = [_PREFIX.pack(base, raw[1], leader_epoch), records[_PREFIX_BYTES:]]
        else:
            appended_ms = max_timestamp = now_ms
            buffers = [_stamp(raw, records, base, leader_epoch, now_ms), records[HEADER_BYTES:]]
        segment = self.segments[-1]
        if segment.size and self._is_roll_due(segment, size, last, max_timestamp, now_ms):
            segment = self.roll()
        if leader_epoch > self.epochs.latest:
            self._begin_epoch(leader_epoch, base)
        self._write(segment, buffers, last)
        segment.commit(size, last, max_timestamp, config.index_interval_bytes)
        if segment.offsets.write_due or segment.times.write_due:
            self._write_indexes_soon(segment)
        if producer_id >= 0:
            stored = StoredBatch(raw[11], advance_sequence(raw[11], raw[6]), base, last, max_timestamp)
            self.producers.record(producer_id, raw[10], stored, now_ms)
        self._end_moved(last + 1)
        return AppendResult(base, last, appended_ms, self.log_start_offset)

    def _end_moved(self, end: int) -> None:
        self.log_end_offset = end
        if self.sole_replica:
            self.high_watermark = end
            if self._waiters:
                self._wake()
        if self._end_waiters:
            for number, (min_offset, callback) in list(self._end_waiters.items()):
                if end > min_offset and self._end_waiters.pop(number, None) is not None:
                    callback()

    def _begin_epoch(self, epoch: int, start: int) -> None:
        if epoch > self.epochs.latest:
            now = LeaderEpochs((*self.epochs.entries, (epoch, start)))
            self._write_epochs(now)
            self.epochs = now

    def _write_epochs(self, epochs: LeaderEpochs) -> None:
        try:
            replace_file(self.place.fs, self.place.folder / CHECKPOINT, epochs.encode())
        except OSError as error:
            raise _storage_error("writing the leader epochs", self, error) from error

    def append_as_follower(self, records: memoryview) -> int:
        """Append whole batches as the leader sent them; the log's end after it. Raises KafkaError at a bad one."""
        if self._offline is not None or self._tail_is_dirty:
            self._make_usable()
        now_ms = self._clock.wall_ms()
        for header, batch in leaders_batches(records, self.log_end_offset, self.epochs.latest):
            segment = self.segments[-1]
            if segment.size and self._is_roll_due(
                segment, header.size, header.last_offset, header.max_timestamp, now_ms
            ):
                segment = self.roll()
            self._begin_epoch(header.leader_epoch, header.base_offset)
            self._write(segment, [batch], header.last_offset)
            segment.commit(header.size, header.last_offset, header.max_timestamp, self.config.index_interval_bytes)
            if segment.offsets.write_due or segment.times.write_due:
                self._write_indexes_soon(segment)
            self.producers.replay(header, now_ms)
            self._end_moved(header.last_offset + 1)
        return self.log_end_offset

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that ends at or above `offset`."""
        if offset >= self.log_end_offset:
            return
        values = self._all_batches(offset)
        self._rebuild(values, min(offset, self.log_end_offset))

    def restart_at(self, offset: int) -> None:
        self.log_start_offset = offset
        self._rebuild([], offset)

    def move_log_start(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if self.on_start_moved is not None:
                self.on_start_moved()

    def _all_batches(self, offset: int) -> list[bytes]:
        kept = []
        for segment in self.segments:
            for at, header in segment.headers(0):
                if header.last_offset < offset:
                    kept.append(segment.file.pread(header.size, at))
        return kept

    def _rebuild(self, batches: list[bytes], end: int) -> None:
        for segment in self.segments:
            for path in (segment.path, segment.offsets.path, segment.times.path):
                self.place.fs.unlink(path)
        base = HEADER.unpack_from(batches[0])[0] if batches else end
        fresh = Segment(self.place.fs, self.place.folder, base, self._clock.wall_ms())
        fresh.create()
        self.segments[:] = [fresh]
        self.producers.clear()
        self.epochs.clear()
        self.recovery_point = min(self.recovery_point, base)
        self.log_end_offset = base
        for batch in batches:
            self.append_as_follower(memoryview(batch))
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        self._write_epochs(self.epochs)

    def add_end_waiter(self, min_offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        self._waiter_ids += 1
        number = self._waiter_ids
        self._end_waiters[number] = (min_offset, callback)
        return lambda: self._end_waiters.pop(number, None) and None

    def _check_producer(self, raw: RawHeader) -> AppendResult | None:
        stored = self.producers.duplicate_or_check(raw[9], raw[10], raw[11], advance_sequence(raw[11], raw[6]))
        if stored is None:
            return None
        appended_ms = NO_TIMESTAMP if self.config.message_timestamp_type == "CreateTime" else stored.timestamp
        return AppendResult(stored.first_offset, stored.last_offset, appended_ms, self.log_start_offset, True)

    def _is_roll_due(self, segment: Segment, size: int, last: int, timestamp: int, now_ms: int) -> bool:
        return is_roll_due(segment, self.config, size, last, timestamp, now_ms) or segment.index_is_full(
            self.config.segment_index_bytes
        )

    def _write(self, segment: Segment, buffers: list[Buffer], last: int) -> None:
        """One write, and an fsync where flush.messages asks for it; a failure is undone and told."""
        try:
            segment.append(buffers)
        except OSError as error:
            self._cut_tail(segment)
            raise _storage_error("append", self, error) from error
        if last + 1 - self.recovery_point >= self.config.flush_messages:
            try:
                self._sync()
            except OSError as error:
                self._go_offline(error)
                self._cut_tail(segment)
                raise _storage_error("fsync", self, error) from error
            self.recovery_point = last + 1
            self.last_flush_ms = self._clock.wall_ms()

    def _write_indexes_soon(self, segment: Segment) -> None:
        try:
            segment.write_indexes()
        except OSError:
            # The batch is stored. The entries stay in memory, and roll and flush, which do report, write them again.
            return

    def _cut_tail(self, segment: Segment) -> None:
        try:
            segment.truncate_tail()
        except OSError:
            # Nothing reads past the segment's size; the next append has to cut first (`_make_usable`).
            self._tail_is_dirty = True

    def _make_usable(self) -> None:
        if self._offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._offline)
        try:
            self._active.truncate_tail()
        except OSError as error:
            raise _storage_error("truncate", self, error) from error
        self._tail_is_dirty = False

    def _go_offline(self, error: OSError) -> None:
        # After a failed fsync the kernel may have dropped the pages and call them clean: only a restart, which reads
        # what is really there, can say what survived.
        self._offline = f"{self.topic}-{self.partition} takes no records since an fsync failed ({error}); restart"

    def roll(self) -> Segment:
        """Begin a new segment at the end of the log; the old one's indexes are complete in their files then."""
        old = self._active
        new = Segment(self.place.fs, self.place.folder, self.log_end_offset, self._clock.wall_ms())
        try:
            old.index_time()
            old.write_indexes()
            self._snapshot()
            new.create()
        except OSError as error:
            raise _storage_error("roll", self, error) from error
        self._new_names = True
        self.segments.append(new)
        return new

    def _snapshot(self) -> None:
        if self.snapshot_offset != self.log_end_offset:
            take_snapshot(self.place.fs, self.place.folder, self.producers, self.log_end_offset)
            self.snapshot_offset = self.log_end_offset

    # The fetch path

    def read(self, offset: int, max_bytes: int, *, min_one: bool, up_to: int) -> FileRegion | None:
        """Whole batches from the one that holds `offset`, below `up_to`; one that is too large only with `min_one`."""
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is outside {self.log_start_offset}..{self.log_end_offset}",
            )
        if offset >= up_to:
            return None
        for number in range(self._segment_number(offset), len(self.segments)):
            segment = self.segments[number]
            start = segment.position_of(offset)
            if start is not None:
                return _region(segment, start, max_bytes, min_one, up_to)
        return None

    def _segment_number(self, offset: int) -> int:
        segments = self.segments
        low, high = 0, len(segments) - 1
        if offset >= segments[high].base_offset:
            return high
        while low < high:
            middle = (low + high + 1) // 2
            if segments[middle].base_offset <= offset:
                low = middle
            else:
                high = middle - 1
        return low

    def add_waiter(self, min_offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Call once when records at `min_offset` become readable or the log ends; the result takes it back."""
        self._waiter_ids += 1
        number = self._waiter_ids
        self._waiters[number] = (min_offset, callback)

        def remove() -> None:
            self._waiters.pop(number, None)

        return remove

    def _wake(self, *, everyone: bool = False) -> None:
        for number, (min_offset, callback) in list(self._waiters.items()):
            if (everyone or self.high_watermark > min_offset) and self._waiters.pop(number, None) is not None:
                callback()

    def advance_high_watermark(self, offset: int) -> None:
        """For replication: all in-sync replicas have everything below `offset`."""
        self.high_watermark = min(max(self.high_watermark, offset), self.log_end_offset)
        if self._waiters:
            self._wake()

    # Offsets by time

    def offset_for_timestamp(self, timestamp_ms: int) -> Found | None:
        """The first record that is not older. Inside a compressed batch: the batch's first offset."""
        for segment in self.segments:
            if segment.max_timestamp >= timestamp_ms and segment.next_offset > self.log_start_offset:
                found = segment.first_at_or_after(timestamp_ms, self.log_start_offset)
                if found is not None and found[0] < self.high_watermark:
                    return Found(*found)
        return None

    def max_timestamp(self) -> Found | None:
        """The record with the greatest timestamp, the earliest of several."""
        newest = max((segment.max_timestamp for segment in self.segments), default=NO_TIMESTAMP)
        return self.offset_for_timestamp(newest) if newest >= 0 else None

    # Cleaning and flushing

    def delete_records(self, before_offset: int) -> int:
        """Move the log start; returns where it is now. Segments wholly below it go with the next tick."""
        if before_offset > self.high_watermark or before_offset < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {before_offset} is outside 0..{self.high_watermark}"
            )
        if before_offset > self.log_start_offset:
            self.log_start_offset = before_offset
            if self.on_start_moved is not None:
                self.on_start_moved()
        return self.log_start_offset

    def update_config(self, config: TopicConfig) -> None:
        self.config = config

    def apply_retention(self, now_ms: int) -> int:
        """Take expired segments out of the log and rename their files; returns how many."""
        active = self._active
        if is_idle_roll_due(active, self.config, now_ms):
            self.roll()
        count = count_expired(self.segments, self.config, self.log_start_offset, now_ms)
        while count and self.segments[count - 1].next_offset > self.high_watermark:
            count -= 1
        if not count:
            return 0
        if count == len(self.segments):
            self.roll()
        for segment in self.segments[:count]:
            self.renamed.append((now_ms, segment.rename_away(".deleted")))
        self.place.fs.fsync_dir(self.place.folder)
        del self.segments[:count]
        first = self.segments[0].base_offset
        if first > self.log_start_offset:
            self.log_start_offset = first
            if self.on_start_moved is not None:
                self.on_start_moved()
        self.recovery_point = max(self.recovery_point, first)
        return count

    def _sync(self) -> None:
        """fsync everything from the recovery point on; raises OSError."""
        for segment in self.segments:
            if segment.next_offset > self.recovery_point or segment is self._active:
                segment.flush()
        if self._new_names:
            self.place.fs.fsync_dir(self.place.folder)
            self._new_names = False

    def flush(self) -> None:
        """Make everything appended so far survive a power loss."""
        if self._offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._offline)
        if self.recovery_point >= self.log_end_offset and not self._new_names:
            return
        try:
            self._sync()
        except OSError as error:
            self._go_offline(error)
            raise _storage_error("fsync", self, error) from error
        self.recovery_point = self.log_end_offset
        self.last_flush_ms = self._clock.wall_ms()

    def flush_is_due(self, now_ms: int) -> bool:
        return self.recovery_point < self.log_end_offset and now_ms - self.last_flush_ms >= self.config.flush_ms

    def unflushed_sealed(self) -> Segment | None:
        """The oldest sealed segment that was not yet synced."""
        if self._offline is not None:
            return None
        for segment in self.segments[:-1]:
            if segment.next_offset > self.recovery_point:
                return segment
        return None

    def sealed_is_flushed(self, segment: Segment) -> None:
        self.recovery_point = max(self.recovery_point, segment.next_offset)

    def fsync_failed(self, error: OSError) -> None:
        self._go_offline(error)

    def release_idle(self) -> None:
        for segment in self.segments[:-1]:
            if segment.next_offset <= self.recovery_point:
                segment.release()

    def close(self) -> None:
        """Complete the files: whole indexes, a producer snapshot, everything synced."""
        if self._tail_is_dirty:
            self._make_usable()
        self._active.index_time()
        self._new_names = True
        self.flush()
        try:
            self._snapshot()
        except OSError as error:
            raise _storage_error("snapshot", self, error) from error
        self.end()

    def end(self) -> None:
        """The log is closed or deleted: nobody waits for it any longer."""
        self._offline = f"{self.topic}-{self.partition} is closed on this broker"
        self._wake(everyone=True)


def _stamp(raw: RawHeader, records: memoryview, base: int, leader_epoch: int, now_ms: int) -> bytearray:
    """The header with LogAppendTime; as in Kafka the maximum timestamp counts for every record then."""
    head = bytearray(
        HEADER.pack(base, raw[1], leader_epoch, raw[3], 0, raw[5] | LOG_APPEND_TIME, *raw[6:8], now_ms, *raw[9:])
    )
    crc = crc32c(records[HEADER_BYTES:], crc32c(memoryview(head)[CRC_FROM:]))
    CRC.pack_into(head, CRC_FROM - 4, crc)
    return head


def _region(segment: Segment, start: int, max_bytes: int, min_one: bool, up_to: int) -> FileRegion | None:
    size, next_offset = segment.size, segment.next_offset
    if up_to < next_offset:
        bound = segment.position_of(up_to)
        size, next_offset = (size, next_offset) if bound is None else (bound, up_to)
    if start >= size:
        return None
    if size - start > max_bytes:
        end, next_offset = segment.end_within(start, start + max_bytes)
        if (end - start > max_bytes and not min_one) or end > size:
            return None
        size = end
    segment.remember(next_offset, size)
    return FileRegion(segment.file, start, size - start)


def _storage_error(what: str, log: Log, error: OSError) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what} on {log.topic}-{log.partition} failed: {error}")
