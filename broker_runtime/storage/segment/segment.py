"""The writing side of a segment: a .log file of whole batches with its two indexes.

Only what `commit` has counted is read: the remains of a failed write never are. Knows nothing of producers, retention
or clients' rules.
"""

from pathlib import Path

from broker_runtime.errors import KafkaError
from broker_runtime.storage.disk.filesystem import Buffer, File, FileSystem
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.segment.index import OFFSET_ENTRY, TIME_ENTRY, Entries
from broker_runtime.storage.segment.segment_indexes import (
    SegmentIndexes,
    aborted_path,
    begin_aborted,
    keep_in_memory,
    segment_path,
)
from broker_runtime.storage.segment.segment_reader import SegmentReader
from broker_runtime.storage.segment.stored_batches import DamagedFileError
from kafka_bytes.batches import CONTROL, Header


class Segment(SegmentReader):
    """One segment of a log: a file of batches and its indexes.

    `created_ms` is the broker's time when this process created or loaded the segment. Methods raise OSError.
    """

    __slots__ = (
        "_since_index",
        "created_ms",
        "first_timestamp",
        "fs",
        "index_bytes",
        "max_timestamp",
        "offset_of_max",
    )

    def __init__(self, fs: FileSystem, folder: Path, base_offset: int, created_ms: int) -> None:
        path = segment_path(folder, base_offset, ".log")
        super().__init__(path, base_offset, SegmentIndexes(fs, folder, base_offset))
        self.fs = fs
        self.created_ms = created_ms
        self.reset()

    def reset(self) -> None:
        """Empty the segment in memory; the files stay unchanged."""
        self.size = 0
        self.next_offset = self.base_offset
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.offset_of_max = -1
        self.index_bytes = 0
        """Size of the larger index with its next entries, in bytes; 0 until it has entries."""
        self._since_index = 0
        self._hints.clear()

    def create(self) -> None:
        """Create the segment's files, the log file last.

        If creating the log file fails, only indexes remain, which are not a segment at a start.
        """
        self.indexes.create()
        self.file = self.fs.open(self.path, create=True)

    def open(self) -> None:
        self.file = self.fs.open(self.path)
        self.size = self.file.size()

    def append(self, buffers: list[Buffer]) -> None:
        """Write the buffers after the last good byte; `commit` makes them count.

        Raises OSError with nothing counted.
        """
        self.file.write_at(buffers, self.size)

    def commit(self, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> bool:
        """Count a batch that `append` wrote, and add index entries every `index_interval` bytes.

        Returns whether it has added entries, which the caller writes later. If an index cannot be read, a later batch
        gets the entry.
        """
        adds_entries = self._since_index > index_interval and self.indexes.are_there
        if adds_entries:
            self.indexes.offsets.entries.append(last_offset - self.base_offset, self.size)
            self.index_time()
            self.index_bytes = self.indexes.bytes_needed
            self._since_index = 0
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max = last_offset
        if not self.size:
            self.first_timestamp = max_timestamp
        self._since_index += size
        self.size += size
        self.next_offset = last_offset + 1
        return adds_entries

    def index_time(self) -> None:
        """Add a time index entry for the newest batch so far, unless the last entry is as new."""
        times = self.indexes.times.entries
        last = times.last()
        if self.max_timestamp >= 0 and (last is None or self.max_timestamp > last[0]):
            times.append(self.max_timestamp, self.offset_of_max - self.base_offset)

    def truncate_tail(self) -> None:
        """Cut the bytes that a failed write left after the last good byte."""
        self.file.truncate(self.size)

    def cut(self, position: int, index_interval: int, indexed: SegmentIndexes) -> None:
        """End the segment at the batch boundary `position`, and rebuild the indexes.

        `indexed` are the indexes before the cut: if they match the file, only the batches after their last entry are
        read.
        """
        try:
            offsets, times = indexed.offsets.entries.up_to(position - 1), indexed.times.entries
        except OSError:
            offsets, times = b"", Entries(TIME_ENTRY)
        self.file.truncate(position)
        self.reset()
        self.indexes.create()
        start = self._take_over(Entries(OFFSET_ENTRY, offsets), times, position)
        for at, header in self.headers(start, position):
            self.size = at
            self.commit(header.size, header.last_offset, header.newest_ms, index_interval)
        self.size = position
        if self.damage:
            self.next_offset = max(self.next_offset, self.damage[-1].next_offset)
        self.index_time()
        if self.damage:
            keep_in_memory(self.indexes)
            self.indexes.forget()

    def _take_over(self, offsets: Entries, times: Entries, end: int) -> int:
        """Count what lies before the batch of the last entry of `offsets`.

        Returns that batch's position, or 0 if the entries do not match the file.
        """
        last = offsets.last()
        if last is None:
            return 0
        try:
            begin = self._header_at(last[1], end)
            older = Entries(TIME_ENTRY, times.up_to(begin.base_offset - 1 - self.base_offset))
            newest = older.last()
            if begin.last_offset != self.base_offset + last[0] or newest is None:
                return 0
            self.indexes.offsets.entries.data[:] = offsets.data
            self.size, self.next_offset = last[1], begin.base_offset
            at = self.position_of(self.base_offset + newest[1])
            known = None if at is None else self._header_at(at, end)
            if known is None or (known.newest_ms, known.last_offset) != (newest[0], self.base_offset + newest[1]):
                raise DamagedFileError(self.path, last[1])
            self.first_timestamp = self._header_at(0, end).newest_ms
        except KafkaError:
            self.reset()
            self.indexes.offsets.entries.data.clear()
            return 0
        self.indexes.times.entries.data[:] = older.data
        self.max_timestamp, self.offset_of_max = newest[0], known.last_offset
        self.index_bytes = self.indexes.bytes_needed
        return last[1]

    def _header_at(self, position: int, end: int) -> Header:
        """Return the header at `position`. Raises KafkaError if there is none."""
        for _, header in self.headers(position, end):
            return header
        raise DamagedFileError(self.path, position)

    def unlink(self) -> None:
        """Delete the segment's files, the log file first. Readers that have it open may finish."""
        for path in (self.path, *self.indexes.paths, aborted_path(self.indexes)):
            if self.fs.exists(path):
                self.fs.unlink(path)

    def flush(self) -> None:
        for file in self.take_unsynced():
            file.fsync()

    def take_unsynced(self) -> list[File]:
        """Return the files that the caller is to sync, possibly in another thread."""
        files = [self.file, *self.indexes.take_unsynced()]
        if self.indexes.aborted is not None:
            self.indexes.aborted.write()
            of_aborted = self.indexes.aborted.take_unsynced()
            files += [] if of_aborted is None else [of_aborted]
        return files

    def rename_away(self, suffix: str, moved: list[Path]) -> None:
        """Rename the files so that a restart does not see a segment; open files stay readable.

        `moved` gets the new names, also those made before an error. Raises OSError.
        """
        paths = [self.path, *self.indexes.paths]
        if self.indexes.aborted is not None:
            paths.append(self.indexes.aborted.path)
        for path in paths:
            target = path.with_name(path.name + suffix)
            if self.fs.exists(path):
                self.fs.rename(path, target)
                moved.append(target)


def new_segment(place: LogPlace, base_offset: int) -> Segment:
    """Create an empty segment with its files. Raises OSError."""
    segment = Segment(place.fs, place.folder, base_offset, place.clock.wall_ms())
    segment.create()
    return segment


def count_scanned(segment: Segment, header: Header, index_interval: int) -> None:
    """Count a batch that a scan has found, and begin an index of aborted transactions at the first marker.

    That index stays empty until the transactions of the log are replayed.
    """
    segment.commit(header.size, header.last_offset, header.newest_ms, index_interval)
    if header.attributes & CONTROL and segment.indexes.aborted is None:
        begin_aborted(segment.indexes)
