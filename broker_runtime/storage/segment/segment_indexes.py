"""The two indexes of one segment, which are created, written, synced and removed together."""

from pathlib import Path

from broker_runtime.storage.disk.filesystem import File, FileSystem
from broker_runtime.storage.segment.index import OFFSET_ENTRY, TIME_ENTRY, Index


def segment_path(folder: Path, base_offset: int, suffix: str) -> Path:
    return folder / f"{base_offset:020d}{suffix}"


class SegmentIndexes:
    """The offset index and the time index of one segment.

    `offsets`: (last offset of a batch above the base offset, its position); `times`: (time, relative offset).

    An entry of `times` is the newest batch so far; it is added if that batch has changed since the last entry. Damaged
    or lost indexes are rebuilt from the batches. Methods raise OSError.
    """

    __slots__ = ("_fs", "offsets", "times")

    def __init__(self, fs: FileSystem, folder: Path, base_offset: int) -> None:
        self._fs = fs
        self.offsets = Index(fs, segment_path(folder, base_offset, ".index"), OFFSET_ENTRY)
        self.times = Index(fs, segment_path(folder, base_offset, ".timeindex"), TIME_ENTRY)

    @property
    def paths(self) -> tuple[Path, Path]:
        return self.offsets.path, self.times.path

    def create(self) -> None:
        self.offsets.create()
        self.times.create()

    def renew(self) -> None:
        """Start empty; the files keep their content until the next `write`."""
        self.offsets.renew()
        self.times.renew()

    def forget(self) -> None:
        """Remove the files durably, so that the next start checks each batch again."""
        for path in self.paths:
            if self._fs.exists(path):
                self._fs.unlink(path)
        self._fs.fsync_dir(self.offsets.path.parent)

    @property
    def are_there(self) -> bool:
        """Whether the entries are in memory or can be read into it."""
        try:
            _ = self.offsets.entries, self.times.entries
        except OSError:
            return False
        return True

    @property
    def are_readable(self) -> bool:
        """Whether both files exist and have whole entries."""
        if not self.offsets.exists() or not self.times.exists():
            return False
        return self.offsets.size % OFFSET_ENTRY.size == 0 and self.times.size % TIME_ENTRY.size == 0

    @property
    def bytes_needed(self) -> int:
        """Size of the larger index with its next entries, in bytes; a roll adds a final time entry."""
        return max(self.offsets.size + OFFSET_ENTRY.size, self.times.size + 2 * TIME_ENTRY.size)

    @property
    def write_due(self) -> bool:
        return self.offsets.write_due or self.times.write_due

    def write(self) -> None:
        self.offsets.write()
        self.times.write()

    def take_unsynced(self) -> list[File]:
        """Return the files to sync, after a `write`; see `Index.take_unsynced`."""
        self.write()
        try:
            taken = (self.offsets.take_unsynced(), self.times.take_unsynced())
        except OSError:
            self.put_back()
            raise
        return [file for file in taken if file is not None]

    def put_back(self) -> None:
        """Note that the taken files were not synced."""
        self.offsets.put_back()
        self.times.put_back()

    def release(self) -> None:
        """Drop entries from memory that were not used since the last call."""
        self.offsets.release()
        self.times.release()


def keep_in_memory(indexes: SegmentIndexes) -> None:
    """Never write the files again. Without them the next start checks each batch of the segment."""
    indexes.offsets.is_written = indexes.times.is_written = False


def keep_in_files(indexes: SegmentIndexes) -> None:
    """Write the index files again, after `keep_in_memory`."""
    indexes.offsets.is_written = indexes.times.is_written = True
