"""The indexes of one segment, which are created, written, synced and removed together."""

from pathlib import Path

from broker_runtime.storage.disk.filesystem import File, FileSystem
from broker_runtime.storage.segment import aborted_index
from broker_runtime.storage.segment.aborted_index import AbortedIndex
from broker_runtime.storage.segment.index import OFFSET_ENTRY, TIME_ENTRY, Index


def segment_path(folder: Path, base_offset: int, suffix: str) -> Path:
    return folder / f"{base_offset:020d}{suffix}"


class SegmentIndexes:
    """The offset index and the time index of one segment, and the index of aborted transactions if it has any.

    `offsets`: (last offset of a batch above the base offset, its position); `times`: (time, relative offset).

    An entry of `times` is the newest batch so far; it is added if that batch has changed since the last entry. Damaged
    or lost indexes are rebuilt from the batches. Methods raise OSError.
    """

    __slots__ = ("aborted", "fs", "offsets", "times")

    def __init__(self, fs: FileSystem, folder: Path, base_offset: int) -> None:
        self.fs = fs
        self.offsets = Index(fs, segment_path(folder, base_offset, ".index"), OFFSET_ENTRY)
        self.times = Index(fs, segment_path(folder, base_offset, ".timeindex"), TIME_ENTRY)
        self.aborted: AbortedIndex | None = None
        """The aborted transactions whose marker lies in the segment; None without any."""

    @property
    def paths(self) -> tuple[Path, Path]:
        return self.offsets.path, self.times.path

    def create(self) -> None:
        self.offsets.create()
        self.times.create()

    def renew(self) -> None:
        """Start with no entries; the files keep their content until the next `write`."""
        self.offsets.renew()
        self.times.renew()

    def forget(self) -> None:
        """Remove the index files durably, so that the next start checks each batch again."""
        for path in self.paths:
            if self.fs.exists(path):
                self.fs.unlink(path)
        self.fs.fsync_dir(self.offsets.path.parent)

    @property
    def are_there(self) -> bool:
        """Return whether the entries are in memory or can be read into memory."""
        try:
            _ = self.offsets.entries, self.times.entries
        except OSError:
            return False
        return True

    @property
    def are_readable(self) -> bool:
        """Return whether both index files exist and have whole entries."""
        if not self.offsets.exists() or not self.times.exists():
            return False
        return self.offsets.size % OFFSET_ENTRY.size == 0 and self.times.size % TIME_ENTRY.size == 0

    @property
    def bytes_needed(self) -> int:
        """Return the size of the larger index with its next entries, in bytes; a roll adds a final time entry."""
        return max(self.offsets.size + OFFSET_ENTRY.size, self.times.size + 2 * TIME_ENTRY.size)

    @property
    def write_due(self) -> bool:
        return self.offsets.write_due or self.times.write_due

    def write(self) -> None:
        self.offsets.write()
        self.times.write()

    def take_unsynced(self) -> list[File]:
        """Return the index files to sync, after a `write`; see `Index.take_unsynced`."""
        self.write()
        try:
            taken = (self.offsets.take_unsynced(), self.times.take_unsynced())
        except OSError:
            self.put_back()
            raise
        return [file for file in taken if file is not None]

    def put_back(self) -> None:
        """Record that the taken files were not synced."""
        self.offsets.put_back()
        self.times.put_back()
        if self.aborted is not None:
            self.aborted.put_back()

    def release(self) -> None:
        """Drop entries from memory that were not used since the last call."""
        self.offsets.release()
        self.times.release()
        if self.aborted is not None:
            self.aborted.release()


def keep_in_memory(indexes: SegmentIndexes) -> None:
    """Stop writing this segment's index files for good.

    Without them the next start checks each batch of the segment.
    """
    indexes.offsets.is_written = indexes.times.is_written = False


def keep_in_files(indexes: SegmentIndexes) -> None:
    """Write the index files again, after `keep_in_memory`."""
    indexes.offsets.is_written = indexes.times.is_written = True


def aborted_path(indexes: SegmentIndexes) -> Path:
    """Return the path of the index of aborted transactions, which most segments do not have."""
    return indexes.offsets.path.with_suffix(aborted_index.SUFFIX)


def find_aborted(indexes: SegmentIndexes) -> None:
    """Take over the existing file of aborted transactions."""
    indexes.aborted = AbortedIndex(indexes.fs, aborted_path(indexes), is_new=False)


def begin_aborted(indexes: SegmentIndexes) -> AbortedIndex:
    """Begin an index of aborted transactions without entries, and return it. Its first write replaces any file."""
    indexes.aborted = index = AbortedIndex(indexes.fs, aborted_path(indexes), is_new=True)
    return index
