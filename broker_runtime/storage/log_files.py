"""The files of one partition's log: what is written, what of it is synced, and what follows when the disk fails.

Owns the segments, the leader epochs' file and the snapshots of producers. Nothing counts before it is written whole, so
a full disk or a crash leaves nothing half-written to read. Syncs run beside the event loop, one at a time: each covers
all that was written before it, and what comes meanwhile is the next one's. Knows neither clients' rules nor watermarks:
`log.Log` does.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.epochs import EPOCHS_FILE, LeaderEpochs
from broker_runtime.storage.filesystem import Buffer, replace_file
from broker_runtime.storage.place import LogPlace
from broker_runtime.storage.producers import ProducerStates
from broker_runtime.storage.segment import Segment
from broker_runtime.storage.snapshots import take_snapshot
from broker_runtime.storage.sync import Sync
from broker_runtime.storage.truncation import begin_anew, cut_back, reload_producers

_LOGGER = logging.getLogger(__name__)


@dataclass(slots=True)
class LoadedLog:
    """What loading the folder found; a new log has one empty segment."""

    segments: list[Segment]
    producers: ProducerStates
    log_start_offset: int = 0
    recovery_point: int = 0
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    has_new_names: bool = False
    snapshot_offset: int = -1
    renamed: list[Path] = field(default_factory=list)
    """Files of segments that had been taken out of the log."""


class LogFiles:
    """There is always a segment; the last one takes what is written, and its `next_offset` is the log's end.

    What survives: a killed process loses nothing that was written; a power loss takes what lies behind
    `recovery_point`.
    """

    __slots__ = (
        "_cuts",
        "_epochs_are_synced",
        "_going_base",
        "_names_made",
        "_names_synced",
        "_new_folder",
        "_offline",
        "_renamed",
        "_snapshot_offset",
        "_syncing",
        "_unsynced_snapshot",
        "epochs",
        "last_flush_ms",
        "on_synced",
        "place",
        "producers",
        "recovery_point",
        "segments",
        "usable",
    )

    def __init__(self, place: LogPlace, loaded: LoadedLog) -> None:
        self.place = place
        self.segments = loaded.segments
        self.producers = loaded.producers
        self.epochs = loaded.epochs
        self.recovery_point = loaded.recovery_point
        self.last_flush_ms = place.clock.wall_ms()
        self.usable = True
        """Whether a write may follow as things are; else `make_usable` comes before it."""
        self.on_synced: Callable[[], None] = _nothing
        """Called when a sync has ended, well or not."""
        self._offline: str | None = None
        self._syncing = False
        self._cuts = 0
        self._epochs_are_synced = True
        self._snapshot_offset = loaded.snapshot_offset
        self._unsynced_snapshot: Path | None = None
        self._new_folder = loaded.has_new_names
        """Until the first sync has ended: making a partition costs no sync."""
        self._names_made = int(loaded.has_new_names)
        self._names_synced = 0
        """How many times names have come to the folder, and up to which of them a sync that has ended covers."""
        self._going_base: int | None = None
        self._renamed: list[tuple[int, list[Path]]] = [(0, loaded.renamed)] if loaded.renamed else []
        """(wall ms, files) of segments that are no longer part of the log and whose files go later."""

    # Writing

    def write(self, segment: Segment, buffers: list[Buffer]) -> None:
        """One write; a failure is undone and told by KafkaError."""
        try:
            segment.append(buffers)
        except OSError as error:
            self._undo(segment)
            raise self._failure("append", error) from error

    def _undo(self, segment: Segment) -> None:
        """Nothing was written, and nothing under a new leader epoch, after all."""
        try:
            segment.truncate_tail()
        except OSError:
            # Nothing reads past the segment's size; the next append has to cut first.
            self.usable = False
        if self.epochs.truncate_end(segment.next_offset):
            self.usable = False

    def write_indexes_soon(self, segment: Segment) -> None:
        try:
            segment.indexes.write()
        except OSError:
            # The batch is stored. The entries stay in memory, and roll and flush, which do report, write them again.
            return

    def roll(self) -> Segment:
        """Begin a new segment at the end of the log; the old one's indexes are complete in their files then."""
        old = self.segments[-1]
        new = Segment(self.place.fs, self.place.folder, old.next_offset, self.place.clock.wall_ms())
        try:
            old.index_time()
            old.indexes.write()
            self._snapshot(sync=False)
            new.create()
        except OSError as error:
            raise self._failure("roll", error) from error
        self._names_made += 1
        self.segments.append(new)
        return new

    def _snapshot(self, *, sync: bool) -> None:
        """Without `sync` it is synced with the batches; a start that finds it damaged takes the one before."""
        end = self.segments[-1].next_offset
        if self._snapshot_offset != end:
            path = take_snapshot(self.place.fs, self.place.folder, self.producers, end, sync=sync)
            self._unsynced_snapshot = None if sync else path
            self._snapshot_offset = end

    def begin_epoch(self, epoch: int, start: int) -> None:
        """Known before the first batch that was written under it. Raises KafkaError."""
        self.epochs.assign(epoch, start)
        try:
            self._write_epochs(sync=False)
        except OSError as error:
            self.epochs.truncate_end(start)
            raise self._failure("writing the leader epochs", error) from error

    def _write_epochs(self, *, sync: bool) -> None:
        """Synced with the batches; until then a start finds missing epochs in the batches themselves."""
        replace_file(self.place.fs, self.place.folder / EPOCHS_FILE, self.epochs.encode(), sync=sync)
        self._epochs_are_synced = sync

    # When the disk fails

    def make_usable(self) -> None:
        """Cut what a failed write left. Raises KafkaError, always so when the log is offline."""
        if self._offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._offline)
        try:
            self.segments[-1].truncate_tail()
            self._write_epochs(sync=False)
        except OSError as error:
            raise self._failure("truncate", error) from error
        self.usable = True

    def take_offline(self, reason: str) -> None:
        self._offline = reason
        self.usable = False

    @property
    def offline(self) -> str | None:
        """Why the log takes no records until the broker is restarted."""
        return self._offline

    def _give_up(self, what: str, error: Exception) -> None:
        self.place.on_failed()
        # After a failed fsync the kernel may have dropped the pages and call them clean: only a restart, which reads
        # what is really there, can say what survived.
        self.take_offline(f"{self.place} takes no records since {what} failed ({error}); restart")

    def read_failed(self, error: OSError) -> KafkaError:
        """For who asked to read; the log goes on, as the next read may succeed (descriptors were short, say)."""
        return self._failure("read", error)

    def _failure(self, what: str, error: Exception) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what} on {self.place} failed: {error}")

    # Cutting

    def cut_back(self, end: int, index_interval: int) -> None:
        """Drop what begins at or above `end`, where a batch ends, for good. Raises KafkaError."""
        self._cuts += 1
        try:
            cut_back(self.place, self.segments, end, index_interval)
            self.epochs.truncate_end(end)
            self._write_epochs(sync=True)
            self._after_cut()
        except (OSError, KafkaError) as error:
            raise self._cut_failed(error) from error

    def begin_anew(self, offset: int) -> None:
        """Drop everything, for good, and go on at `offset`. Raises KafkaError."""
        self._cuts += 1
        try:
            self.epochs.clear()
            self._write_epochs(sync=True)
            begin_anew(self.place, self.segments, offset)
            self._going_base = None
            self._after_cut()
        except (OSError, KafkaError) as error:
            raise self._cut_failed(error) from error

    def _after_cut(self) -> None:
        self._snapshot_offset = reload_producers(self.place, self.segments, self.producers)
        self.usable = self._offline is None

    def _cut_failed(self, error: Exception) -> KafkaError:
        self._give_up("truncation", error)
        return self._failure("truncate", error)

    # Old segments

    def rename_away(self, count: int, now_ms: int, done: Callable[[], None]) -> None:
        """Take the oldest segments, but not all, out of the log; `done` is called once they are gone for good.

        Raises OSError.
        """
        for segment in self.segments[:count]:
            paths: list[Path] = []
            # Before it is tried: what a failure leaves renamed goes too.
            self._renamed.append((now_ms, paths))
            segment.rename_away(".deleted", paths)
        self._going_base = self.durable_base
        del self.segments[:count]
        begin, fs = self.segments[0].base_offset, self.place.fs
        gone = partial(self._are_gone, begin, self._cuts, done)
        self.place.disk.submit(partial(fs.fsync_dir, self.place.folder), gone)

    def _are_gone(self, begin: int, cuts: int, done: Callable[[], None], error: Exception | None) -> None:
        if self._offline is not None or cuts != self._cuts:
            return
        if error is not None:
            _LOGGER.error("old segments of %s may come back with a power loss: %s", self.place, error)
            return
        if self._going_base is not None and self._going_base < begin:
            # Those that were taken out since may still come back.
            self._going_base = begin if begin < self.segments[0].base_offset else None
        self.recovery_point = max(self.recovery_point, begin)
        done()

    @property
    def durable_base(self) -> int:
        """Where the log may begin after a power loss: segments that are taken out come back until that is synced."""
        return self.segments[0].base_offset if self._going_base is None else self._going_base

    def forget_epochs_before(self, offset: int) -> None:
        """Raises OSError."""
        if self.epochs.truncate_start(offset):
            self._write_epochs(sync=False)

    def remove_renamed(self, until_ms: int) -> None:
        """Remove what was renamed at or before `until_ms`; what fails is tried again. Raises OSError."""
        while self._renamed and self._renamed[0][0] <= until_ms:
            paths = self._renamed[0][1]
            while paths:
                self.place.fs.unlink(paths[-1])
                paths.pop()
            del self._renamed[0]

    def release_idle(self) -> None:
        for segment in self.segments[:-1]:
            if segment.next_offset <= self.recovery_point:
                segment.indexes.release()

    # Syncing

    def sync_soon(self) -> None:
        """Begin to sync everything written so far, unless a sync is under way; `on_synced` is called at its end."""
        self._sync_soon(self.segments[-1])

    def sync_sealed_soon(self) -> bool:
        """The same for the oldest sealed segment that is not synced; False when there is none or a sync runs."""
        for segment in self.segments[:-1]:
            if segment.next_offset > self.recovery_point:
                return self._sync_soon(segment)
        return False

    @property
    def is_syncing(self) -> bool:
        return self._syncing

    def _sync_soon(self, through: Segment) -> bool:
        if self._syncing or self._offline is not None:
            return False
        try:
            sync = self._begin_sync(through)
        except OSError as error:
            self._sync_failed(error)
            self.on_synced()
            return False
        self._syncing = True
        self.place.disk.submit(sync.run, partial(self._sync_ended, sync))
        return True

    def _begin_sync(self, through: Segment) -> Sync:
        """Everything up to the end of this segment, and what its batches need to be found. Raises OSError."""
        end = through.next_offset
        small_files = [] if self._epochs_are_synced else [self.place.folder / EPOCHS_FILE]
        if self._unsynced_snapshot is not None:
            small_files.append(self._unsynced_snapshot)
        self._epochs_are_synced, self._unsynced_snapshot = True, None
        # Not what another sync has taken on and may still be at: whoever flushes is told that it is durable.
        names = self._names_made
        files = []
        for segment in list(self.segments):
            if segment.next_offset > self.recovery_point or segment is through:
                files += segment.take_unsynced()
            if segment is through:
                break
        names_are_new = names > self._names_synced
        return Sync(self.place, files, small_files, names, names_are_new, self._new_folder, end, self._cuts)

    def _sync_ended(self, sync: Sync, error: Exception | None) -> None:
        self._syncing = False
        if self._offline is not None:
            # It was closed or deleted meanwhile: nobody asks what is synced.
            return
        if error is None:
            self._is_synced(sync)
        else:
            self._sync_failed(error)
        self.on_synced()

    def _is_synced(self, sync: Sync) -> None:
        if sync.cuts == self._cuts:
            self.recovery_point = max(self.recovery_point, sync.end)
        self._names_synced = max(self._names_synced, sync.names)
        self._new_folder = False
        self.last_flush_ms = self.place.clock.wall_ms()

    def _sync_failed(self, error: Exception) -> None:
        _LOGGER.error("fsync of %s failed: %s", self.place, error)
        self._give_up("an fsync", error)

    def flush(self) -> None:
        """Make everything written so far survive a power loss before it returns. Raises KafkaError.

        A controller calls it in a thread: what the event loop writes or begins meanwhile is left to the next one.
        """
        if self._offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._offline)
        if self.recovery_point >= self.segments[-1].next_offset and self._names_synced == self._names_made:
            return
        try:
            sync = self._begin_sync(self.segments[-1])
            sync.run()
        except OSError as error:
            self._sync_failed(error)
            raise self._failure("fsync", error) from error
        self._is_synced(sync)

    def flush_is_due(self, now_ms: int, flush_ms: int) -> bool:
        return self.recovery_point < self.segments[-1].next_offset and now_ms - self.last_flush_ms >= flush_ms

    def close(self) -> None:
        """Complete the files: whole indexes, a producer snapshot, everything synced. Raises KafkaError.

        Not while a sync is under way: how it ends says whether the files are whole.
        """
        if self._syncing:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"a sync of {self.place} has not ended")
        if not self.usable:
            self.make_usable()
        active = self.segments[-1]
        active.index_time()
        self.flush()
        try:
            active.indexes.write()
            self._snapshot(sync=True)
        except OSError as error:
            raise self._failure("snapshot", error) from error


def _nothing() -> None:
    pass
