"""The offsets of one log: its start, its end, its counted end and its high watermark, and the waiters for them.

Gets the synced offset from `LogSyncs`, and knows nothing of batches.
"""

from collections.abc import Callable

from broker_runtime.config import TopicConfig
from broker_runtime.storage.disk.waiters import OffsetWaiters, Watchers
from broker_runtime.storage.log.log_files import LogFiles


class LogOffsets:
    """The offsets of one log: its start, its end and its high watermark.

    `sole_replica` lets each append move the high watermark, as in a new log; otherwise replication moves it. A loaded
    log is not the sole replica until the caller sets this: its high watermark is the one of the checkpoint. All offsets
    are in memory; `Checkpoints` keeps the start, the high watermark and the first dirty offset.
    """

    __slots__ = (
        "_replicated",
        "_sole_replica",
        "_sync_waiters",
        "_syncs",
        "_unreplicated",
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
        "transactions",
    )

    def __init__(self, files: LogFiles, config: TopicConfig, log_start_offset: int) -> None:
        self.files = files
        self.config = config
        self._syncs = files.syncs
        self.transactions = files.producers.transactions
        self._unreplicated = self.transactions.unreplicated.markers
        self.log_start_offset = log_start_offset
        self.log_end_offset = files.segments[-1].next_offset
        self.counted_end = self.log_end_offset
        """Records below it count for acknowledgements: they are synced, or flush.messages does not require a sync yet.
        """
        self.high_watermark = self.log_end_offset
        self.first_dirty_offset = 0
        """The log cleaner has processed everything below it."""
        self.on_counted: Callable[[], None] | None = None
        """Called when `counted_end` has changed other than by an append."""
        self.on_start_moved: Callable[[], None] | None = None
        self.on_cut: Callable[[], None] | None = None
        self._sole_replica = True
        wakes = files.place.wakes
        self._replicated = OffsetWaiters(wakes)
        self._sync_waiters = OffsetWaiters(wakes)
        self.readers = Watchers(wakes)
        """Notified when the high watermark or the start moves, and when all waiters are to check again."""
        self.followers = Watchers(wakes)
        """Notified like `readers`, and of each append, synchronously: there are at most as many as replicas.

        Most have nothing to do when only the high watermark has moved, so that notification is a separate one.
        """
        files.syncs.on_ended = self._synced

    @property
    def sole_replica(self) -> bool:
        return self._sole_replica

    @sole_replica.setter
    def sole_replica(self, value: bool) -> None:
        self._sole_replica = value
        if value:
            self.advance_high_watermark(self.counted_end)
            self.transactions.settle(self.high_watermark)

    def start_replicating(self, high_watermark: int) -> None:
        """Become one of several replicas. All replicas are known to agree on the records below `high_watermark`."""
        self._sole_replica = False
        self.high_watermark = max(min(high_watermark, self.log_end_offset), self.log_start_offset)
        self.transactions.settle(self.high_watermark)

    def advance_high_watermark(self, offset: int) -> None:
        """Raise the high watermark for replication: all in-sync replicas have the records below `offset`."""
        before = self.high_watermark
        moved = self.high_watermark = min(max(before, offset), self.log_end_offset)
        if moved != before:
            if self._unreplicated:
                self.transactions.settle(moved)
            if self._replicated.waiting:
                self._replicated.wake(moved)
            self.readers.notify()
            self.followers.notify_high_watermark()

    def extend_to(self, end: int) -> None:
        """Move the log's end to `end`, after batches up to there were written."""
        self.log_end_offset = end
        if end - self._syncs.recovery_point >= self.config.flush_messages:
            self._recount()
        else:
            self.counted_end = end
            if self._sole_replica:
                self.high_watermark = end
                if self._unreplicated:
                    self.transactions.settle(end)
                if self._replicated.waiting:
                    self._replicated.wake(end)
                if self.readers.members:
                    self.readers.notify()
        if self.followers.members:
            self.followers.notify_at_once()

    def _recount(self) -> None:
        """Count what is synced and the flush.messages - 1 records after it; begin a sync if that does not cover all."""
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
        """Return whether the log has records that count only after a sync."""
        return self.counted_end < self.log_end_offset and self.files.health.offline is None

    def add_sync_waiter(self, offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once when the record at `offset` counts, or never will because the disk failed.

        Returns a function that cancels the callback.
        """
        return self._sync_waiters.add(offset, callback)

    def add_waiter(self, min_offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once when records at `min_offset` become readable, or the log ends.

        Returns a function that cancels the callback.
        """
        return self._replicated.add(min_offset, callback)

    def wake_waiting(self) -> None:
        """Wake all waiters so that they check again, for example because another broker leads now."""
        self._replicated.wake_all()
        self._sync_waiters.wake_all()
        self._notify_watchers()

    def _notify_watchers(self) -> None:
        self.readers.notify()
        self.followers.notify_at_once()

    def move_start(self, offset: int) -> None:
        """Move the log's start forwards, never back: records were deleted, or a follower adopts its leader's start."""
        if offset > self.log_start_offset:
            self.begin_at(offset)
            if self.on_start_moved is not None:
                self.on_start_moved()

    def begin_at(self, offset: int) -> None:
        """Move the log's start forwards without persisting it: the segments below it are still being deleted."""
        self.log_start_offset = offset
        self.advance_high_watermark(offset)
        self._notify_watchers()

    def begin_cut(self, end: int) -> None:
        """Prepare to drop all records at or above `end`. Raises KafkaError."""
        self._vouch_only_below(end)

    def end_cut(self, end: int) -> None:
        """Set the offsets after the records at or above `end` were dropped durably. Raises KafkaError."""
        self.log_end_offset = end
        self.log_start_offset = min(self.log_start_offset, end)
        self._vouch_only_below(end)
        self.transactions.settle(self.high_watermark)
        self.counted_end = min(self.counted_end, end)
        self._recount()
        self._notify_watchers()

    def _vouch_only_below(self, end: int) -> None:
        """Lower the offsets, so that those on disk vouch neither for the records to be cut nor for later ones."""
        self._syncs.recovery_point = min(self._syncs.recovery_point, end)
        self.first_dirty_offset = min(self.first_dirty_offset, end)
        self.high_watermark = max(min(self.high_watermark, end), self.log_start_offset)
        if self.on_cut is not None:
            self.on_cut()
