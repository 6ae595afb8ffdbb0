"""Which part of a log is durable on the disk, and the syncs that extend it.

Syncs run beside the event loop, one at a time: each covers everything written before it began. The next sync covers
what is written meanwhile.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from pathlib import Path

from broker_runtime.errors import KafkaError
from broker_runtime.storage.disk.epochs_file import EpochsFile
from broker_runtime.storage.disk.filesystem import File, FsyncFailedError, is_shortage
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.log.log_health import LogHealth
from broker_runtime.storage.log.sync import Sync
from broker_runtime.storage.segment.segment import Segment
from broker_runtime.storage.segment.segment_indexes import SegmentIndexes

_LOGGER = logging.getLogger(__name__)
_RETRY_S, _RETRY_MAX_S = 1.0, 60.0
"""Pause after a sync that could not open a file.

The pause doubles with each further failure, up to the second value.
"""
_ATTEMPTS_MAX = 20
"""Put-off syncs in a row, within a quarter of an hour, that take the log offline. A resource shortage never does."""
_NEXT_OFFSET = attrgetter("next_offset")


class LogSyncs:
    """The syncs of one log. A power loss loses nothing below `recovery_point`, whatever is written meanwhile.

    Only a failed fsync takes the log offline. A sync that could not open a file has lost nothing: the next sync begins
    after a pause and covers the same work. `unsynced_snapshot` is a snapshot that was written and not synced;
    `names_made` counts changes of names in the folder. `cuts` counts a cut before the cut begins: a sync that began
    earlier does not move the recovery point.
    """

    __slots__ = (
        "_attempts",
        "_folder_is_new",
        "_metadata_is_new",
        "_names_synced",
        "_not_before_s",
        "_place",
        "_segments",
        "_under_way",
        "cuts",
        "epochs_file",
        "health",
        "last_ended_ms",
        "names_made",
        "on_ended",
        "recovery_point",
        "unsynced_snapshot",
    )

    def __init__(
        self,
        place: LogPlace,
        segments: list[Segment],
        health: LogHealth,
        epochs_file: EpochsFile,
        recovery_point: int,
        *,
        is_new: bool,
    ) -> None:
        self._place = place
        self._segments = segments
        self.health = health
        self.recovery_point = recovery_point
        self.last_ended_ms = place.clock.wall_ms()
        self.on_ended: Callable[[], None] = _nothing
        """Called when a sync has ended, whether it succeeded or failed."""
        self.cuts = 0
        self.epochs_file = epochs_file
        self.unsynced_snapshot: Path | None = None
        self._under_way = False
        self._attempts = 0
        self._not_before_s: float | None = None
        """Time at which the next sync may begin, in seconds of the monotonic clock; None unless the last sync was put
        off."""
        self._metadata_is_new = self._folder_is_new = is_new
        """Whether partition.metadata, and the folder's name, were never synced.

        The first sync includes both: creating a partition costs no sync.
        """
        self.names_made = int(is_new)
        self._names_synced = 0
        """How many names were made in the folder, and how many of them a finished sync covers."""

    @property
    def is_under_way(self) -> bool:
        return self._under_way

    def is_due(self, now_ms: int, flush_ms: int) -> bool:
        return self.recovery_point < self._segments[-1].next_offset and now_ms - self.last_ended_ms >= flush_ms

    @property
    def has_all(self) -> bool:
        """Return whether all files of the log are synced."""
        is_written = self.recovery_point >= self._segments[-1].next_offset and self._names_synced == self.names_made
        return is_written and self.epochs_file.is_stored and self.unsynced_snapshot is None

    def folder_is_named(self) -> None:
        """Record that the caller has synced the log directory, which has the folder's name."""
        self._folder_is_new = False

    def begin(self) -> None:
        """Begin a sync of all that was written so far, unless a sync is under way.

        The sync calls `on_ended` at its end.
        """
        self._begin(self._segments[-1])

    def begin_sealed(self, segments_max: int = 1, bytes_max: int = 0) -> tuple[int, int] | None:
        """Begin a sync of the oldest unsynced sealed segments: one, and further ones within both limits.

        Returns their number and their bytes; None if all are synced, or a sync is under way.
        """
        begin = bisect_right(self._segments, self.recovery_point, key=_NEXT_OFFSET)
        count = size = 0
        for segment in self._segments[begin : min(begin + max(segments_max, 1), len(self._segments) - 1)]:
            if count and size + segment.size > bytes_max:
                break
            count, size = count + 1, size + segment.size
        return (count, size) if count and self._begin(self._segments[begin + count - 1]) else None

    def flush(self) -> None:
        """Sync all that was written so far, so that it survives a power loss. Raises KafkaError.

        The caller may try again unless `health` has taken the log offline. A controller calls it in a thread: the next
        call covers what the event loop writes or begins meanwhile.
        """
        self.health.check()
        if self.has_all:
            return
        try:
            sync = self._take(self._segments[-1])
        except OSError as error:
            raise self.health.failure("writing the aborted transactions", error) from error
        try:
            sync.run()
        except FsyncFailedError as error:
            raise self._failed("an fsync", error) from error
        except OSError as error:
            self._put_back(sync)
            raise self.health.failure("a sync", error) from error
        self._is_synced(sync)

    def _begin(self, through: Segment) -> bool:
        if self._under_way or self.health.offline is not None:
            return False
        if self._not_before_s is not None and self._place.clock.monotonic() < self._not_before_s:
            return False
        try:
            sync = self._take(through)
        except OSError as error:
            self._place.on_write_failed(f"writing the aborted transactions of {self._place}", error)
            self._not_before_s = self._place.clock.monotonic() + _RETRY_S
            return False
        self._under_way = True
        self._place.disk.submit(sync.run, partial(self._ended, sync))
        return True

    def _take(self, through: Segment) -> Sync:
        """Return a sync of everything up to the end of this segment, and of what locates its batches.

        Raises OSError if the aborted transactions cannot be written: a start would not notice that some are missing.
        """
        end = through.next_offset
        segments = self._unsynced_up_to(through)
        of_aborted = _unsynced_aborted(segments)
        snapshot, self.unsynced_snapshot = self.unsynced_snapshot, None
        epochs = self.epochs_file, self.epochs_file.take()
        # Includes names that another sync has taken and may not have synced yet: `flush` promises that they are
        # durable.
        names = self.names_made
        files: list[File] = []
        indexes: list[SegmentIndexes] = []
        for segment in segments:
            of_indexes = _unsynced_indexes(segment)
            files += [segment.file, *of_indexes]
            indexes += [segment.indexes] * bool(of_indexes or segment.indexes.aborted is not None)
        files += of_aborted
        names_are_new = names > self._names_synced
        is_new = self._metadata_is_new, self._folder_is_new
        return Sync(self._place, files, indexes, snapshot, *epochs, names, names_are_new, *is_new, end, self.cuts)

    def _unsynced_up_to(self, through: Segment) -> list[Segment]:
        """Return the segments with unsynced records, up to `through`, which is always included."""
        found = []
        for segment in self._segments:
            if segment.next_offset > self.recovery_point or segment is through:
                found.append(segment)
            if segment is through:
                break
        return found

    def _ended(self, sync: Sync, error: Exception | None) -> None:
        self._under_way = False
        if self.health.offline is not None:
            # The log was closed or deleted meanwhile: nothing asks for its recovery point.
            return
        if error is None:
            self._is_synced(sync)
        elif isinstance(error, OSError) and not isinstance(error, FsyncFailedError):
            self._put_off(sync, error)
        else:
            self._failed("an fsync", error)
        self.on_ended()

    def _put_off(self, sync: Sync, error: OSError) -> None:
        """Retry later, as a file could not be opened or a name not be made; nothing is lost yet."""
        self._put_back(sync)
        self._place.on_write_failed(f"opening the files of {self._place} to sync them", error)
        self._attempts += 1
        if self._attempts >= _ATTEMPTS_MAX and not is_shortage(error):
            self._failed(f"the last of {self._attempts} attempts to sync", error)
            return
        pause_s = min(_RETRY_S * 2 ** min(self._attempts - 1, 10), _RETRY_MAX_S)
        self._not_before_s = self._place.clock.monotonic() + pause_s

    def _put_back(self, sync: Sync) -> None:
        """Leave what this sync did not make durable to the next one.

        The next one syncs the folder in any case: this sync may have given the epochs' file its name before it failed.
        """
        self.names_made += 1
        for indexes in sync.indexes:
            indexes.put_back()
        if self.unsynced_snapshot is None:
            self.unsynced_snapshot = sync.snapshot

    def _is_synced(self, sync: Sync) -> None:
        if sync.cuts == self.cuts:
            self.recovery_point = max(self.recovery_point, sync.end)
        self._names_synced = max(self._names_synced, sync.names)
        self._metadata_is_new = self._folder_is_new = False
        self._attempts, self._not_before_s = 0, None
        self.last_ended_ms = self._place.clock.wall_ms()

    def folder_failed(self, error: Exception) -> None:
        """Handle a failed sync of the log's folder that ran outside of `begin` and `flush`.

        After a failed fsync no later sync can prove which names are durable, so the log goes offline. If the folder
        only could not be opened, the next sync makes the names durable.
        """
        if isinstance(error, OSError) and not isinstance(error, FsyncFailedError):
            self.names_made += 1
            self._place.on_write_failed(f"opening the folder of {self._place} to sync it", error)
        else:
            self._failed("an fsync", error)

    def _failed(self, what: str, error: Exception) -> KafkaError:
        _LOGGER.error("%s of %s failed: %s", what, self._place, error)
        self.health.give_up(what, error)
        return self.health.failure(what, error)


def _unsynced_indexes(segment: Segment) -> list[File]:
    """Return the index files to sync; none if the entries cannot be written.

    Those entries stay in memory until the next sync, and a start rebuilds lost ones.
    """
    try:
        return segment.indexes.take_unsynced()
    except OSError:
        return []


def _unsynced_aborted(segments: list[Segment]) -> list[File]:
    """Return the files of aborted transactions to sync, after writing what is missing. Raises OSError."""
    found = [segment.indexes.aborted for segment in segments if segment.indexes.aborted is not None]
    files = []
    try:
        for index in found:
            index.write()
        for index in found:
            file = index.take_unsynced()
            if file is not None:
                files.append(file)
    except OSError:
        for index in found:
            index.put_back()
        raise
    return files


def _nothing() -> None:
    pass
