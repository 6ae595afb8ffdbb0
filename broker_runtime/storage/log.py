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

from broker_runtime.clock import Clock
from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.batch import HEADER_BYTES, advance_sequence
from broker_runtime.storage.checkpoint import PARTITION_METADATA
from broker_runtime.storage.epochs import EPOCHS_FILE, LeaderEpochs
from broker_runtime.storage.filesystem import Buffer, FileSystem, replace_file
from broker_runtime.storage.following import Run, leaders_batches
from broker_runtime.storage.producers import ProducerStates, StoredBatch
from broker_runtime.storage.retention import count_expired, is_idle_roll_due, is_roll_due
from broker_runtime.storage.segment import Segment
from broker_runtime.storage.snapshots import take_snapshot
from broker_runtime.storage.truncation import begin_anew, cut_back, end_before, reload_producers
from broker_runtime.storage.validation import RawHeader, check_batch, stamped_header
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
    on_failed: Callable[[], None] = lambda: None


@dataclass(slots=True)
class LoadedLog:
    """What loading the folder found; a new log has one empty segment."""

    segments: list[Segment]
    producers: ProducerStates
    log_start_offset: int = 0
    recovery_point: int = 0
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    has_new_names: bool = False


class Log:
    """`sole_replica` lets each append move the high watermark, as a new log does; replication moves it itself.

    A log that was loaded is not the sole replica until it is told to be: its high watermark is the checkpoint's.
    What survives: a killed process loses nothing that was written; a power loss takes what lies behind
    `recovery_point`, which flush.messages and flush.ms move, of leaders and followers alike.
    """

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
        self._epochs_are_synced = True
        self._sole_replica = True
        self.snapshot_offset = -1
        self.last_flush_ms = place.clock.wall_ms()
        self.on_start_moved: Callable[[], None] | None = None
        self.on_cut: Callable[[], None] | None = None
        self.renamed: list[tuple[int, list[Path]]] = []
        """(wall ms, files) of segments that are no longer part of the log and whose files go later."""
        self._clock = place.clock
        self._offline: str | None = None
        self._tail_is_dirty = False
        self._new_names = self._new_folder = loaded.has_new_names
        """What the first sync must make durable beside the batches: making a partition costs no sync."""
        self._waiters: dict[int, tuple[int, Callable[[], None]]] = {}
        self._waiter_ids = 0
        self._end_waiters: dict[int, tuple[int, Callable[[], None]]] = {}

    @property
    def _active(self) -> Segment:
        return self.segments[-1]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def sole_replica(self) -> bool:
        return self._sole_replica

    @sole_replica.setter
    def sole_replica(self, value: bool) -> None:
        self._sole_replica = value
        if value:
            self.advance_high_watermark(self.log_end_offset)

    def start_replicating(self, high_watermark: int) -> None:
        """As one of several replicas, of which everything below `high_watermark` is known to be the same."""
        self._sole_replica = False
        self.high_watermark = max(min(high_watermark, self.log_end_offset), self.log_start_offset)

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
            buffers = [stamped_header(raw, records, base, leader_epoch, now_ms), records[HEADER_BYTES:]]
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
        if self._sole_replica:
            self.high_watermark = end
            if self._waiters:
                self._wake()
        if self._end_waiters:
            self._wake_end()

    # The follower's path

    def append_as_follower(self, records: memoryview) -> int:
        """Append whole batches as the leader sent them; the log's end after it.

        Raises KafkaError at the first bad batch, CORRUPT_MESSAGE or OFFSET_OUT_OF_RANGE; those before it are stored.
        """
        if self._offline is not None or self._tail_is_dirty:
            self._make_usable()
        now_ms = self._clock.wall_ms()
        run = Run(records)
        try:
            for header in leaders_batches(records, self.log_end_offset, self.epochs.latest):
                if run.headers and header.leader_epoch != run.headers[-1].leader_epoch:
                    self._append_run(run, now_ms)
                size = run.size + header.size
                last, timestamp = header.last_offset, header.max_timestamp
                active = self.segments[-1]
                if (active.size or run.size) and self._is_roll_due(active, size, last, timestamp, now_ms):
                    self._append_run(run, now_ms)
                    self.roll()
                run.add(header)
        finally:
            self._append_run(run, now_ms)
        return self.log_end_offset

    def _append_run(self, run: Run, now_ms: int) -> None:
        """Batches of one epoch that lie next to each other and go to one segment: one write."""
        headers, data = run.take()
        if not headers:
            return
        segment = self.segments[-1]
        last = headers[-1].last_offset
        if headers[0].leader_epoch > self.epochs.latest:
            self._begin_epoch(headers[0].leader_epoch, headers[0].base_offset)
        self._write(segment, [data], last)
        for header in headers:
            segment.commit(header.size, header.last_offset, header.max_timestamp, self.config.index_interval_bytes)
            self.producers.replay(header, now_ms)
        if segment.offsets.write_due or segment.times.write_due:
            self._write_indexes_soon(segment)
        self._end_moved(last + 1)

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that ends at or above `offset`, for good once it returns. Raises KafkaError."""
        if offset >= self.log_end_offset:
            return
        if offset <= self.segments[0].base_offset:
            self.restart_at(max(offset, 0))
            return
        end = end_before(self.segments, offset)
        self._vouch_only_below(end)
        try:
            cut_back(self.place, self.segments, end, self.config.index_interval_bytes)
            self.epochs.truncate_end(end)
            self._write_epochs(sync=True)
            self.snapshot_offset = reload_producers(self.place, self.segments, self.producers)
        except (OSError, KafkaError) as error:
            self._go_offline("truncation", error)
            raise _storage_error("truncate", self, error) from error
        self._end_cut(end)

    def restart_at(self, offset: int) -> None:
        """Drop everything and go on at `offset`: the leader has nothing older any more. Raises KafkaError."""
        self._vouch_only_below(min(offset, self.segments[0].base_offset))
        try:
            self.epochs.clear()
            self._write_epochs(sync=True)
            begin_anew(self.place, self.segments, offset)
            self.snapshot_offset = reload_producers(self.place, self.segments, self.producers)
        except (OSError, KafkaError) as error:
            self._go_offline("truncation", error)
            raise _storage_error("truncate", self, error) from error
        self.high_watermark = self.log_start_offset = offset
        self._end_cut(offset)

    def _end_cut(self, end: int) -> None:
        self._tail_is_dirty = False
        self.log_end_offset = end
        self.log_start_offset = min(self.log_start_offset, end)
        self._vouch_only_below(end)

    def _vouch_only_below(self, end: int) -> None:
        """Before and after a cut: offsets on disk must not vouch for what is cut, nor for what is written next."""
        self.recovery_point = min(self.recovery_point, end)
        self.high_watermark = max(min(self.high_watermark, end), self.log_start_offset)
        if self.on_cut is not None:
            self.on_cut()

    def move_log_start(self, offset: int) -> None:
        """A follower takes over the leader's log start."""
        if offset > self.log_start_offset:
            self.log_start_offset = min(offset, self.log_end_offset)
            self.advance_high_watermark(self.log_start_offset)
            if self.on_start_moved is not None:
                self.on_start_moved()

    # Leader epochs

    @property
    def latest_epoch(self) -> int:
        """Of the newest batch; -1 when nothing was written under an epoch."""
        return self.epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(greatest known epoch up to this one, where it ends here); (-1, -1) when none is known."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def _begin_epoch(self, epoch: int, start: int) -> None:
        """Known before the first batch that was written under it. Raises KafkaError."""
        self.epochs.assign(epoch, start)
        try:
            self._write_epochs(sync=False)
        except OSError as error:
            self.epochs.truncate_end(start)
            raise _storage_error("writing the leader epochs", self, error) from error

    def _write_epochs(self, *, sync: bool) -> None:
        """Synced with the batches; until then a start finds missing epochs in the batches themselves."""
        replace_file(self.place.fs, self.place.folder / EPOCHS_FILE, self.epochs.encode(), sync=sync)
        self._epochs_are_synced = sync

    def _forget_new_epoch(self) -> None:
        """Nothing was written under it after all."""
        if self.epochs.truncate_end(self.log_end_offset):
            self._tail_is_dirty = True

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
            self._forget_new_epoch()
            raise _storage_error("append", self, error) from error
        if last + 1 - self.recovery_point >= self.config.flush_messages:
            try:
                self._sync()
            except OSError as error:
                self._go_offline("an fsync", error)
                self._cut_tail(segment)
                self._forget_new_epoch()
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
            self._write_epochs(sync=False)
        except OSError as error:
            raise _storage_error("truncate", self, error) from error
        self._tail_is_dirty = False

    def _go_offline(self, what: str, error: Exception) -> None:
        self.place.on_failed()
        # After a failed fsync the kernel may have dropped the pages and call them clean: only a restart, which reads
        # what is really there, can say what survived.
        self._offline = f"{self.topic}-{self.partition} takes no records since {what} failed ({error}); restart"

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
                return segment.region(start, max_bytes, min_one=min_one, up_to=up_to)
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

    def add_end_waiter(self, min_offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        """As add_waiter, but for the log's end: a follower is sent what is not replicated yet."""
        self._waiter_ids += 1
        number = self._waiter_ids
        self._end_waiters[number] = (min_offset, callback)

        def remove() -> None:
            self._end_waiters.pop(number, None)

        return remove

    def _wake(self, *, everyone: bool = False) -> None:
        for number, (min_offset, callback) in list(self._waiters.items()):
            if (everyone or self.high_watermark > min_offset) and self._waiters.pop(number, None) is not None:
                callback()

    def _wake_end(self, *, everyone: bool = False) -> None:
        for number, (min_offset, callback) in list(self._end_waiters.items()):
            if (everyone or self.log_end_offset > min_offset) and self._end_waiters.pop(number, None) is not None:
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
        if self.epochs.truncate_start(first):
            self._write_epochs(sync=False)
        return count

    def _sync(self) -> None:
        """fsync everything from the recovery point on; raises OSError."""
        for segment in self.segments:
            if segment.next_offset > self.recovery_point or segment is self._active:
                segment.flush()
        self._sync_names()

    def _sync_names(self) -> None:
        """What the batches need to be found and understood; raises OSError."""
        if not self._epochs_are_synced:
            self._write_epochs(sync=True)
        if self._new_folder:
            self.place.fs.open(self.place.folder / PARTITION_METADATA).fsync()
            self.place.fs.fsync_dir(self.place.folder.parent)
        if self._new_names:
            self.place.fs.fsync_dir(self.place.folder)
        self._new_folder = self._new_names = False

    def flush(self) -> None:
        """Make everything appended so far survive a power loss."""
        if self._offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._offline)
        if self.recovery_point >= self.log_end_offset and not self._new_names:
            return
        try:
            self._sync()
        except OSError as error:
            self._go_offline("an fsync", error)
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
        """Raises OSError."""
        if any(known is segment for known in self.segments[:-1]):
            self._sync_names()
            self.recovery_point = max(self.recovery_point, segment.next_offset)

    def fsync_failed(self, error: OSError) -> None:
        self._go_offline("an fsync", error)

    def release_idle(self) -> None:
        for segment in self.segments[:-1]:
            if segment.next_offset <= self.recovery_point:
                segment.release()

    def close(self) -> None:
        """Complete the files: whole indexes, a producer snapshot, everything synced."""
        if self._tail_is_dirty:
            self._make_usable()
        self._active.index_time()
        self.flush()
        try:
            self._active.write_indexes()
            self._snapshot()
        except OSError as error:
            raise _storage_error("snapshot", self, error) from error
        self.end()

    def end(self) -> None:
        """The log is closed or deleted: nobody waits for it any longer."""
        self._offline = f"{self.topic}-{self.partition} is closed on this broker"
        self._wake(everyone=True)
        self._wake_end(everyone=True)


def _storage_error(what: str, log: Log, error: Exception) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what} on {log.topic}-{log.partition} failed: {error}")
