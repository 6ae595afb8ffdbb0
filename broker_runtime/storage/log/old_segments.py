"""Segments that leave the log at its beginning: renamed at once, removed later, tracked while they may come back."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from broker_runtime.storage.disk.disk import Done
from broker_runtime.storage.disk.filesystem import FileSystem, read_file
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.log.log_syncs import LogSyncs
from broker_runtime.storage.segment.index import OFFSET_ENTRY, Entries
from broker_runtime.storage.segment.segment import Segment
from broker_runtime.storage.segment.stored_batches import extents

RENAMED = ".deleted"
RENAMED_LOG = ".log" + RENAMED


def end_of_renamed(fs: FileSystem, path: Path) -> int:
    """Return the end offset of a segment that was removed from the log, from its `RENAMED_LOG` file.

    Raises OSError, and KafkaError if the file is damaged.
    """
    name = path.name.removesuffix(RENAMED_LOG)
    file, index = fs.open(path), path.with_name(f"{name}.index{RENAMED}")
    size = file.size()
    entry = Entries(OFFSET_ENTRY, read_file(fs, index)).last() if fs.exists(index) else None
    end = int(name)
    for _, _, _, last_offset in extents(file, path, 0 if entry is None else entry[1], size):
        end = last_offset + 1
    return end


class OldSegments:
    """The segments that were removed from the log and renamed.

    A rename is durable after a sync of the folder. A power loss before that restores the old names.
    """

    __slots__ = ("_going_base", "_place", "_renamed", "_segments", "_syncs", "_unsynced")

    def __init__(self, place: LogPlace, segments: list[Segment], syncs: LogSyncs, renamed: list[Path]) -> None:
        self._place = place
        self._segments = segments
        self._syncs = syncs
        self._going_base: int | None = None
        self._renamed: list[tuple[int, list[Path]]] = [(0, renamed)] if renamed else []
        """(wall ms, files) of segments that are no longer part of the log and whose files are removed later."""
        self._unsynced: list[Done] = []
        """Callbacks that wait for another sync of the folder: in the last one the folder could not be opened."""

    def rename_away(self, count: int, now_ms: int, done: Callable[[], None]) -> None:
        """Remove the oldest segments, but not all, from the log; call `done` once they are durably gone.

        Raises OSError.
        """
        for segment in self._segments[:count]:
            paths: list[Path] = []
            # Before the rename: files that a failure leaves renamed are removed later, too.
            self._renamed.append((now_ms, paths))
            segment.rename_away(RENAMED, paths)
        self._going_base = self.durable_base
        del self._segments[:count]
        begin = self._segments[0].base_offset
        self._sync(partial(self._are_gone, begin, self._syncs.cuts, done))

    def _sync(self, gone: Done) -> None:
        self._place.disk.submit(self._place.sync_folder, partial(self._synced, gone))

    def _synced(self, gone: Done, error: Exception | None) -> None:
        if self._syncs.health.offline is not None:
            return
        if error is not None:
            self._syncs.folder_failed(error)
            self._unsynced.append(gone)
        else:
            gone(None)

    def retry(self) -> None:
        """Repeat the sync of the folder for segments whose sync has failed. The caller runs this periodically."""
        unsynced, self._unsynced = self._unsynced, []
        if self._syncs.health.offline is None:
            for gone in unsynced:
                self._sync(gone)

    def _are_gone(self, begin: int, cuts: int, done: Callable[[], None], _: Exception | None) -> None:
        if cuts != self._syncs.cuts:
            return
        if self._going_base is not None and self._going_base < begin:
            # Segments that were removed since may still come back.
            self._going_base = begin if begin < self._segments[0].base_offset else None
        self._syncs.recovery_point = max(self._syncs.recovery_point, begin)
        done()

    @property
    def durable_base(self) -> int:
        """Return the offset where the log may begin after a power loss: until a sync, removed segments may reappear."""
        return self._segments[0].base_offset if self._going_base is None else self._going_base

    def are_gone_for_good(self) -> None:
        """Forget removed segments: the log was durably restarted, so none of them can reappear."""
        self._going_base = None

    def remove_renamed(self, until_ms: int) -> None:
        """Remove the segments' files that were renamed at or before `until_ms`. Raises OSError.

        The next call retries failures.
        """
        while self._renamed and self._renamed[0][0] <= until_ms:
            paths = self._renamed[0][1]
            while paths:
                self._place.fs.unlink(paths[-1])
                paths.pop()
            del self._renamed[0]
