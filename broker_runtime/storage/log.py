"""One partition's log: the produce and fetch paths, and the offsets that say what of it counts.

The produce path: one unpack of the batch header from the request's bytes, one checksum over them, one pwritev of the
patched header fields and the untouched rest into the page cache, a few integers; records are neither copied nor
decompressed. What the disk holds, and whether it is there for good, is `LogFiles`' matter. Knows nothing of topics'
leaders, requests or sockets.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.batch import HEADER_BYTES, advance_sequence
from broker_runtime.storage.filesystem import Buffer
from broker_runtime.storage.following import Run, batch_around, leaders_batches
from broker_runtime.storage.log_files import LoadedLog, LogFiles
from broker_runtime.storage.place import LogPlace
from broker_runtime.storage.producers import StoredBatch
from broker_runtime.storage.retention import count_expired, is_idle_roll_due, is_roll_due
from broker_runtime.storage.truncation import end_before
from broker_runtime.storage.validation import RawHeader, check_batch, stamped_header
from broker_runtime.storage.waiters import OffsetWaiters, Watchers
from broker_runtime.wire.reply import FileRegion

_LOGGER = logging.getLogger(__name__)
_PREFIX = Struct(">qii")
_PREFIX_BYTES = _PREFIX.size
_BASE_OFFSET = attrgetter("base_offset")
NO_TIMESTAMP = -1


class AppendResult(NamedTuple):
    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int


class Log:
    """`sole_replica` lets each append move the high watermark, as a new log does; replication moves it itself.

    A log that was loaded is not the sole replica until it is told to be: its high watermark is the checkpoint's.
    """

    def __init__(self, place: LogPlace, config: TopicConfig, loaded: LoadedLog) -> None:
        self.place = place
        self.topic = place.topic
        self.partition = place.partition
        self.topic_id = place.topic_id
        self.config = config
        self.files = LogFiles(place, loaded)
        self.segments = self.files.segments
        self.producers = self.files.producers
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = self.segments[-1].next_offset
        self.counted_end = self.log_end_offset
        """What lies below counts for acknowledgements: it is synced, or flush.messages does not ask for that yet."""
        self.high_watermark = self.log_end_offset
        self.on_counted: Callable[[], None] | None = None
        """Called when `counted_end` has changed other than by an append."""
        self.on_start_moved: Callable[[], None] | None = None
        self.on_cut: Callable[[], None] | None = None
        self._clock = place.clock
        self._sole_replica = True
        self._replicated = OffsetWaiters(place.wakes)
        self._syncs = OffsetWaiters(place.wakes)
        self.readers = Watchers(place.wakes)
        """Told when the high watermark or the start moves, and when all who wait are to look again."""
        self.followers = Watchers(place.wakes)
        """Told of the same and of each append, within it: there are no more of them than replicas."""
        self.files.on_synced = self._synced

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def recovery_point(self) -> int:
        """A power loss takes nothing below it."""
        return self.files.recovery_point

    @property
    def sole_replica(self) -> bool:
        return self._sole_replica

    @sole_replica.setter
    def sole_replica(self, value: bool) -> None:
        self._sole_replica = value
        if value:
            self.advance_high_watermark(self.counted_end)

    def start_replicating(self, high_watermark: int) -> None:
        """As one of several replicas, of which everything below `high_watermark` is known to be the same."""
        self._sole_replica = False
        self.high_watermark = max(min(high_watermark, self.log_end_offset), self.log_start_offset)

    # The produce path

    def append(self, records: memoryview, *, leader_epoch: int = 0) -> AppendResult:
        """Store one batch as a client sent it. Raises KafkaError; then the log is as it was before."""
        config = self.config
        files = self.files
        now_ms = self._clock.wall_ms()
        raw = check_batch(records, config, now_ms)
        if not files.usable:
            files.make_usable()
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
        if segment.size and is_roll_due(segment, config, size, last, max_timestamp, now_ms):
            segment = files.roll()
        if leader_epoch > files.epochs.latest:
            files.begin_epoch(leader_epoch, base)
        files.write(segment, buffers)
        if segment.commit(size, last, max_timestamp, config.index_interval_bytes) and segment.indexes.write_due:
            files.write_indexes_soon(segment)
        if producer_id >= 0:
            stored = StoredBatch(raw[11], advance_sequence(raw[11], raw[6]), base, last, max_timestamp)
            self.producers.record(producer_id, raw[10], stored, now_ms)
        self._end_moved(last + 1)
        return AppendResult(base, last, appended_ms, self.log_start_offset)

    def _end_moved(self, end: int) -> None:
        self.log_end_offset = end
        if end - self.files.recovery_point >= self.config.flush_messages:
            self._recount()
        else:
            self.counted_end = end
            if self._sole_replica:
                self.high_watermark = end
                if self._replicated.waiting:
                    self._replicated.wake(end)
                if self.readers.members:
                    self.readers.tell()
        if self.followers.members:
            self.followers.tell_at_once()

    # What counts

    def _recount(self) -> None:
        """Count what is synced and the flush.messages - 1 records behind it; begin a sync where that is not all."""
        end, point, allowed = self.log_end_offset, self.files.recovery_point, self.config.flush_messages
        counted = end if end - point < allowed else point + allowed - 1
        if self.failure is not None:
            counted = min(counted, self.counted_end)
        if counted != self.counted_end:
            self.counted_end = counted
            if self._sole_replica:
                self.advance_high_watermark(counted)
            if self.on_counted is not None:
                self.on_counted()
        self._syncs.wake(counted)
        if counted < end:
            self.files.sync_soon()

    def _synced(self) -> None:
        self._recount()
        if self.failure is not None:
            self.wake_waiting()

    @property
    def failure(self) -> str | None:
        """Why the log takes no records any more, and counts no more of what it has; None while it does."""
        return self.files.offline

    @property
    def waits_for_sync(self) -> bool:
        """Whether there are records that do not count yet, and will."""
        return self.counted_end < self.log_end_offset and self.failure is None

    def add_sync_waiter(self, offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Call once when `offset` counts, or never will as the disk has failed; the result takes it back."""
        return self._syncs.add(offset, callback)

    # The follower's path

    def append_as_follower(self, records: memoryview) -> int:
        """Append whole batches as the leader sent them; the log's end after it.

        Raises KafkaError at the first bad batch, CORRUPT_MESSAGE or OFFSET_OUT_OF_RANGE; those before it are stored.
        """
        if not self.files.usable:
            self.files.make_usable()
        start = self.log_start_offset
        if start == self.log_end_offset:
            self._begin_with_batch_around(start, records)
        now_ms = self._clock.wall_ms()
        run = Run(records)
        try:
            for header in leaders_batches(records, self.log_end_offset, self.latest_epoch):
                if run.headers and header.leader_epoch != run.headers[-1].leader_epoch:
                    self._append_run(run, now_ms)
                size = run.size + header.size
                last, timestamp = header.last_offset, header.max_timestamp
                active = self.segments[-1]
                if (active.size or run.size) and is_roll_due(active, self.config, size, last, timestamp, now_ms):
                    self._append_run(run, now_ms)
                    self.files.roll()
                run.add(header)
        finally:
            self._append_run(run, now_ms)
        if self.log_start_offset < start:
            self.move_log_start(start)
        return self.log_end_offset

    def _begin_with_batch_around(self, offset: int, records: memoryview) -> None:
        """Of an empty log: the leader's starts inside a batch, so this one begins where the batch does."""
        base = batch_around(records, offset)
        if base is not None:
            self.restart_at(base)

    def _append_run(self, run: Run, now_ms: int) -> None:
        """Batches of one epoch that lie next to each other and go to one segment: one write."""
        headers, data = run.take()
        if not headers:
            return
        files = self.files
        segment = self.segments[-1]
        last = headers[-1].last_offset
        if headers[0].leader_epoch > files.epochs.latest:
            files.begin_epoch(headers[0].leader_epoch, headers[0].base_offset)
        files.write(segment, [data])
        for header in headers:
            segment.commit(header.size, header.last_offset, header.max_timestamp, self.config.index_interval_bytes)
            self.producers.replay(header, now_ms)
        if segment.indexes.write_due:
            files.write_indexes_soon(segment)
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
        self.files.cut_back(end, self.config.index_interval_bytes)
        self._end_cut()

    def restart_at(self, offset: int) -> None:
        """Drop everything and go on at `offset`: the leader has nothing older any more. Raises KafkaError."""
        self._vouch_only_below(min(offset, self.segments[0].base_offset))
        self.files.begin_anew(offset)
        self.high_watermark = self.log_start_offset = offset
        self._end_cut()

    def _end_cut(self) -> None:
        self.log_end_offset = self.segments[-1].next_offset
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        self._vouch_only_below(self.log_end_offset)
        self.counted_end = min(self.counted_end, self.log_end_offset)
        self._recount()
        self._tell_watchers()

    def _vouch_only_below(self, end: int) -> None:
        """Before and after a cut: offsets on disk must not vouch for what is cut, nor for what is written next."""
        self.files.recovery_point = min(self.files.recovery_point, end)
        self.high_watermark = max(min(self.high_watermark, end), self.log_start_offset)
        if self.on_cut is not None:
            self.on_cut()

    def move_log_start(self, offset: int) -> None:
        """A follower takes over the leader's log start."""
        self._move_start(min(offset, self.log_end_offset))

    # Leader epochs

    @property
    def latest_epoch(self) -> int:
        """Of the newest batch; -1 when nothing was written under an epoch."""
        return self.files.epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(greatest known epoch up to this one, where it ends here); (-1, -1) when none is known."""
        return self.files.epochs.end_offset_for(epoch, self.log_end_offset)

    def _check_producer(self, raw: RawHeader) -> AppendResult | None:
        stored = self.producers.duplicate_or_check(raw[9], raw[10], raw[11], advance_sequence(raw[11], raw[6]))
        if stored is None:
            return None
        appended_ms = NO_TIMESTAMP if self.config.message_timestamp_type == "CreateTime" else stored.timestamp
        return AppendResult(stored.first_offset, stored.last_offset, appended_ms, self.log_start_offset)

    # The fetch path

    def read(self, offset: int, max_bytes: int, *, min_one: bool, up_to: int) -> FileRegion | None:
        """Whole batches from the one that holds `offset`, below `up_to`; one that is too large only with `min_one`.

        Raises KafkaError: OFFSET_OUT_OF_RANGE, and KAFKA_STORAGE_ERROR when a file cannot be read.
        """
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is outside {self.log_start_offset}..{self.log_end_offset}",
            )
        if offset >= up_to:
            return None
        segments = self.segments
        number = len(segments) - 1
        if offset < segments[number].base_offset:
            number = max(bisect_right(segments, offset, key=_BASE_OFFSET) - 1, 0)
        try:
            while number < len(segments):
                start = segments[number].position_of(offset)
                if start is not None:
                    return segments[number].region(start, max_bytes, min_one=min_one, up_to=up_to)
                number += 1
        except OSError as error:
            raise self.files.read_failed(error) from error
        return None

    def add_waiter(self, min_offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Call once when records at `min_offset` become readable or the log ends; the result takes it back."""
        return self._replicated.add(min_offset, callback)

    def wake_waiting(self) -> None:
        """Whoever waits is to look again: another broker leads now, say."""
        self._replicated.wake_all()
        self._syncs.wake_all()
        self._tell_watchers()

    def _tell_watchers(self) -> None:
        self.readers.tell()
        self.followers.tell_at_once()

    def advance_high_watermark(self, offset: int) -> None:
        """For replication: all in-sync replicas have everything below `offset`."""
        before = self.high_watermark
        moved = self.high_watermark = min(max(before, offset), self.log_end_offset)
        if moved != before:
            if self._replicated.waiting:
                self._replicated.wake(moved)
            self._tell_watchers()

    # Cleaning

    def delete_records(self, before_offset: int) -> int:
        """Move the log start; returns where it is now. Segments wholly below it go with the next tick."""
        if before_offset > self.high_watermark or before_offset < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {before_offset} is outside 0..{self.high_watermark}"
            )
        self._move_start(before_offset)
        return self.log_start_offset

    def update_config(self, config: TopicConfig) -> None:
        self.config = config
        self._recount()

    def _move_start(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self._begin_at(offset)
            if self.on_start_moved is not None:
                self.on_start_moved()

    def _begin_at(self, offset: int) -> None:
        self.log_start_offset = offset
        self.advance_high_watermark(offset)
        self._tell_watchers()

    def apply_retention(self, now_ms: int) -> None:
        """Take expired segments out of the log; their files go later."""
        if is_idle_roll_due(self.segments[-1], self.config, now_ms):
            self.roll()
        count = count_expired(self.segments, self.config, self.log_start_offset, now_ms)
        while count and self.segments[count - 1].next_offset > self.high_watermark:
            count -= 1
        if not count:
            return
        if count == len(self.segments):
            self.roll()
        self.files.rename_away(count, now_ms, self._old_segments_are_gone)
        self._begin_at(max(self.log_start_offset, self.segments[0].base_offset))

    def _old_segments_are_gone(self) -> None:
        """Only now: before that a power loss brings them back, and the start of the log must be known then."""
        try:
            if self.on_start_moved is not None:
                self.on_start_moved()
            self.files.forget_epochs_before(self.segments[0].base_offset)
        except (OSError, KafkaError) as error:
            _LOGGER.error("the start of %s is noted with the next change: %s", self.place, error)

    def roll(self) -> None:
        """Begin a new segment at the end of the log."""
        self.files.roll()

    def flush_when_due(self, now_ms: int) -> None:
        """Begin a sync where flush.ms asks for one."""
        if self.files.flush_is_due(now_ms, self.config.flush_ms):
            self.files.sync_soon()

    def flush(self) -> None:
        """Make everything appended so far survive a power loss before it returns. Raises KafkaError."""
        self.files.flush()

    def close(self) -> None:
        """Complete the files and sync them. Raises KafkaError."""
        self.files.close()
        self.end()

    def end(self) -> None:
        """The log is closed or deleted: nobody waits for it any longer."""
        self.files.take_offline(f"{self.place} is closed on this broker")
        self.wake_waiting()
