"""The writing side of a segment: a .log file of whole batches with its two indexes.

What counts is what `commit` has taken over: what a failed write left behind it is never read.
Knows nothing of producers, retention or clients' rules.
"""

from pathlib import Path

from broker_runtime.errors import KafkaError
from broker_runtime.storage.batch import Header
from broker_runtime.storage.filesystem import Buffer, File, FileSystem
from broker_runtime.storage.index import OFFSET_ENTRY, TIME_ENTRY, Entries
from broker_runtime.storage.segment_indexes import SegmentIndexes, keep_in_memory, segment_path
from broker_runtime.storage.segment_reader import SegmentReader
from broker_runtime.storage.stored_batches import damaged_at


class Segment(SegmentReader):
    """`created_ms` is the broker's time when this process first knew of it. Methods raise OSError."""

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
        """Count nothing; the files stay as they are."""
        self.size = 0
        self.next_offset = self.base_offset
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.offset_of_max = -1
        self.index_bytes = 0
        """What the larger index needs with its next entries; known once it has some."""
        self._since_index = 0
        self._hints.clear()

    def create(self) -> None:
        """The log's file last: where it cannot be made, indexes are left over, and those are no segment to a start."""
        self.indexes.create()
        self.file = self.fs.open(self.path, create=True)

    def open(self) -> None:
        self.file = self.fs.open(self.path)
        self.size = self.file.size()

    def append(self, buffers: list[Buffer]) -> None:
        """Write behind the last good byte; `commit` makes it count. Raises OSError with nothing counted."""
        self.file.write_at(buffers, self.size)

    def commit(self, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> bool:
        """Count a batch that `append` wrote, and add index entries every `index_interval` bytes.

        Whether it has added some, which are to be written some time. Where an index cannot be read a later batch has
        the entry.
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
        """Note the newest batch so far, where it is newer than the last one that was noted."""
        times = self.indexes.times.entries
        last = times.last()
        if self.max_timestamp >= 0 and (last is None or self.max_timestamp > last[0]):
            times.append(self.max_timestamp, self.offset_of_max - self.base_offset)

    def truncate_tail(self) -> None:
        """Cut what a failed write left behind the last good byte."""
        self.file.truncate(self.size)

    def cut(self, position: int, index_interval: int, indexed: SegmentIndexes) -> None:
        """End at the batch boundary `position`, with indexes of what is left.

        `indexed` are the indexes before: where they fit, only what lies behind their last entry is read.
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
        """Count what lies before the batch of the last entry of `offsets`; its position, or 0 where they do not fit."""
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
                raise damaged_at(self.path, last[1])
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
        """Raises KafkaError where there is none."""
        for _, header in self.headers(position, end):
            return header
        raise damaged_at(self.path, position)

    def unlink(self) -> None:
        """Take the files away, the log first; readers that have it open may finish."""
        for path in (self.path, *self.indexes.paths):
            if self.fs.exists(path):
                self.fs.unlink(path)

    def flush(self) -> None:
        for file in self.take_unsynced():
            file.fsync()

    def take_unsynced(self) -> list[File]:
        """The files whose contents somebody is to sync, which may be in another thread."""
        return [self.file, *self.indexes.take_unsynced()]

    def rename_away(self, suffix: str, moved: list[Path]) -> None:
        """Rename the files so that no restart sees a segment; they stay readable through open files.

        `moved` gets the new names. Raises OSError; what is renamed by then is in `moved`.
        """
        for path in (self.path, *self.indexes.paths):
            target = path.with_name(path.name + suffix)
            if self.fs.exists(path):
                self.fs.rename(path, target)
                moved.append(target)
