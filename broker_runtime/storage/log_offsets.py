"""The offsets of one log: where it begins and ends, what of it counts, what consumers may read; and who waits for them.

Knows what is synced from `LogSyncs`, and nothing of batches.
"""

from collections.abc import Callable

from broker_runtime.config import TopicConfig
from broker_runtime.storage.log_files import LogFiles
from broker_runtime.storage.waiters import OffsetWaiters, Watchers


class LogOffsets:
    """`sole_replica` lets each append move the high watermark, as a new log does; replication moves it itself.

    A log that was loaded is not the sole replica until it is told to be: its high watermark is the checkpoint's. All of
    it is in memory; `Checkpoints` keeps the start, the high watermark and the first dirty offset.
    """

    __slots__ = (
        "_replicated",
        "_sole_replica",
        "_sync_waiters",
        "_syncs",
        "config",
        "counted_end",
        "files",
        "first_dirty_offset",
        "followers",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "on_counted",
        "on_cut",
        "on_start_moved",
        "readers",
    )

    def __init__(self, files: LogFiles, config: TopicConfig, log_start_offset: int) -> None:
        self.files = files
        self.config = config
        self._syncs = files.syncs
        self.log_start_offset = log_start_offset
        self.log_end_offset = files.segments[-1].next_offset
        self.counted_end = self.log_end_offset
        """What lies below counts for acknowledgements: it is synced, or flush.messages does not ask for that yet."""
        self.high_watermark = self.log_end_offset
        self.first_dirty_offset = 0
        """The log cleaner has been through everything below."""
        self.on_counted: Callable[[], None] | None = None
        """Called when `counted_end` has changed other than by an append."""
        self.on_start_moved: Callable[[], None] | None = None
        self.on_cut: Callable[[], None] | None = None
        self._sole_replica = True
        wakes = files.place.wakes
        self._replicated = OffsetWaiters(wakes)
        self._sync_waiters = OffsetWaiters(wakes)
        self.readers = Watchers(wakes)
        """Told when the high watermark or the start moves, and when all who wait are to look again."""
        self.followers = Watchers(wakes)
        """Told of the same and of each append, within it: there are no more of them than replicas. Most have nothing to
        do when it is the high watermark that has moved, and are told that."""
        files.syncs.on_ended = self._synced

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

    def advance_high_watermark(self, offset: int) -> None:
        """For replication: all in-sync replicas have everything below `offset`."""
        before = self.high_watermark
        moved = self.high_watermark = min(max(before, offset), self.log_end_offset)
        if moved != before:
            if self._replicated.waiting:
                self._replicated.wake(moved)
            self.readers.tell()
            self.followers.tell_high_watermark()

    def extend_to(self, end: int) -> None:
        """Batches up to `end` were written."""
        self.log_end_offset = end
        if end - self._syncs.recovery_point >= self.config.flush_messages:
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

    def _recount(self) -> None:
        """Count what is synced and the flush.messages - 1 records behind it; begin a sync where that is not all."""
        end, point, allowed = self.log_end_offset, self._syncs.recovery_point, self.config.flush_messages
        counted = end if end - point < allowed else point + allowed - 1
        if self.files.health.offline is not None:
            counted = min(counted, self.counted_end)
        if counted != self.counted_end:
            self.counted_end = counted
            if self._sole_replica:
                self.advance_high_watermark(counted)
            if self.on_counted is not None:
                self.on_counted()
        self._sync_waiters.wake(counted)
        if counted < end:
            self._syncs.begin()

    def _synced(self) -> None:
        self._recount()
        if self.files.health.offline is not None:
            self.wake_waiting()

    @property
    def waits_for_sync(self) -> bool:
        """Whether there are records that do not count yet, and will."""
        return self.counted_end < self.log_end_offset and self.files.health.offline is None

    def add_sync_waiter(self, offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Call once when `offset` counts, or never will as the disk has failed; the result takes it back."""
        return self._sync_waiters.add(offset, callback)

    def add_waiter(self, min_offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Call once when records at `min_offset` become readable or the log ends; the result takes it back."""
        return self._replicated.add(min_offset, callback)

    def wake_waiting(self) -> None:
        """Whoever waits is to look again: another broker leads now, say."""
        self._replicated.wake_all()
        self._sync_waiters.wake_all()
        self._tell_watchers()

    def _tell_watchers(self) -> None:
        self.readers.tell()
        self.followers.tell_at_once()

    def move_start(self, offset: int) -> None:
        """Forwards only: records were deleted, or a follower takes over its leader's start."""
        if offset > self.log_start_offset:
            self.begin_at(offset)
            if self.on_start_moved is not None:
                self.on_start_moved()

    def begin_at(self, offset: int) -> None:
        """The same where nobody has to note it yet: the segments before it are only on their way out."""
        self.log_start_offset = offset
        self.advance_high_watermark(offset)
        self._tell_watchers()

    def begin_cut(self, end: int) -> None:
        """What lies behind `end` is to go. Raises KafkaError."""
        self._vouch_only_below(end)

    def end_cut(self, end: int) -> None:
        """It is gone, for good. Raises KafkaError."""
        self.log_end_offset = end
        self.log_start_offset = min(self.log_start_offset, end)
        self._vouch_only_below(end)
        self.counted_end = min(self.counted_end, end)
        self._recount()
        self._tell_watchers()

    def _vouch_only_below(self, end: int) -> None:
        """Offsets on disk must not vouch for what is cut, nor for what is written next."""
        self._syncs.recovery_point = min(self._syncs.recovery_point, end)
        self.first_dirty_offset = min(self.first_dirty_offset, end)
        self.high_watermark = max(min(self.high_watermark, end), self.log_start_offset)
        if self.on_cut is not None:
            self.on_cut()
