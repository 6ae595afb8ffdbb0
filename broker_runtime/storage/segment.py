"""One segment: a .log file of whole batches with its two indexes.

Owns positions inside the file. Only `size` bytes of the file count: what a failed write left behind it is never read.
Knows nothing of producers, retention or clients' rules.
"""

from collections.abc import Iterator
from pathlib import Path

from broker_runtime.errors import KafkaError
from broker_runtime.storage.batch import Header
from broker_runtime.storage.filesystem import Buffer, File, FileSystem
from broker_runtime.storage.index import OFFSET_ENTRY, TIME_ENTRY, Index
from broker_runtime.storage.stored_batches import damaged_at, extents, headers
from broker_runtime.wire.reply import FileRegion

_HINTS_MAX = 64


def segment_path(folder: Path, base_offset: int, suffix: str) -> Path:
    return folder / f"{base_offset:020d}{suffix}"


class Segment:
    """`next_offset` is one past the last record; `created_ms` the broker's time when this process first knew of it."""

    def __init__(self, fs: FileSystem, folder: Path, base_offset: int, created_ms: int) -> None:
        self.fs = fs
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.path = segment_path(folder, base_offset, ".log")
        self.offsets = Index(fs, segment_path(folder, base_offset, ".index"), OFFSET_ENTRY)
        self.times = Index(fs, segment_path(folder, base_offset, ".timeindex"), TIME_ENTRY)
        self.file: File
        self._is_doubtful = False
        """What was promised of it could not be read: from now on it is tried before more is promised."""
        self._hints: dict[int, int] = {}
        self.reset()

    def reset(self) -> None:
        """Count nothing; the files stay as they are."""
        self.size = 0
        self.next_offset = self.base_offset
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.offset_of_max = -1
        self._since_index = 0
        self._hints.clear()

    def create(self) -> None:
        self.file = self.fs.open(self.path, create=True)
        self.offsets.create()
        self.times.create()

    def open(self) -> None:
        self.file = self.fs.open(self.path)
        self.size = self.file.size()

    def append(self, buffers: list[Buffer]) -> None:
        """Write behind the last good byte; `commit` makes it count. Raises OSError with nothing counted."""
        self.file.write_at(buffers, self.size)

    def commit(self, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> None:
        """Count a batch that `append` wrote, and add index entries every `index_interval` bytes."""
        if self._since_index > index_interval:
            self.offsets.append(last_offset - self.base_offset, self.size)
            self.index_time()
            self._since_index = 0
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max = last_offset
        if not self.size:
            self.first_timestamp = max_timestamp
        self._since_index += size
        self.size += size
        self.next_offset = last_offset + 1

    def index_time(self) -> None:
        last = self.times.last()
        if self.max_timestamp >= 0 and (last is None or self.max_timestamp > last[0]):
            self.times.append(self.max_timestamp, self.offset_of_max - self.base_offset)

    def truncate_tail(self) -> None:
        """Cut what a failed write left behind the last good byte."""
        self.file.truncate(self.size)

    def cut(self, position: int, index_interval: int) -> None:
        """End at the batch boundary `position`, with indexes of what is left."""
        self.file.truncate(position)
        self.reset()
        self.offsets.create()
        self.times.create()
        for _, header in self.headers(0, position):
            self.commit(header.size, header.last_offset, header.max_timestamp, index_interval)
        self.index_time()

    def forget_indexes(self) -> None:
        """For good, so that the next start looks at each batch again."""
        for path in (self.offsets.path, self.times.path):
            if self.fs.exists(path):
                self.fs.unlink(path)
        self.fs.fsync_dir(self.path.parent)

    def unlink(self) -> None:
        """Take the files away, the log first; readers that have it open may finish."""
        for path in (self.path, self.offsets.path, self.times.path):
            if self.fs.exists(path):
                self.fs.unlink(path)

    def index_is_full(self, index_bytes_max: int) -> bool:
        return self.offsets.size() + OFFSET_ENTRY.size > index_bytes_max or (
            self.times.size() + 2 * TIME_ENTRY.size > index_bytes_max
        )

    def write_indexes(self) -> None:
        self.offsets.write()
        self.times.write()

    def flush(self) -> None:
        self.write_indexes()
        self.fsync()

    def take_unsynced(self) -> list[File]:
        """The files whose contents somebody is to sync, which may be in another thread. Raises OSError."""
        self.write_indexes()
        taken = (self.file, self.offsets.take_unsynced(), self.times.take_unsynced())
        return [file for file in taken if file is not None]

    def fsync(self) -> None:
        self.file.fsync()
        self.offsets.fsync()
        self.times.fsync()

    def release(self) -> None:
        self.offsets.release()
        self.times.release()

    def headers(self, position: int, end: int | None = None) -> Iterator[tuple[int, Header]]:
        """(position, header) of the batches from `position` on, up to the segment's size unless told where."""
        return headers(self.file, self.path, position, self.size if end is None else end)

    def position_of(self, offset: int) -> int | None:
        """Where the batch starts that holds `offset` or, where there is none, the next one; None past the end."""
        if offset >= self.next_offset:
            return None
        hint = self._hints.get(offset)
        if hint is not None:
            return hint
        entry = self.offsets.floor(offset - self.base_offset)
        position = None if entry is None else self._position_behind(entry, offset)
        return self._search(offset, 0) if position is None else position

    def _position_behind(self, entry: tuple[int, int], offset: int) -> int | None:
        """As `_search` from an index entry; None when it names no batch of the log, as a damaged index does."""
        try:
            return self._search(offset, entry[1], self.base_offset + entry[0]) if entry[1] >= 0 else None
        except KafkaError:
            return None

    def _search(self, offset: int, start: int, last_there: int | None = None) -> int:
        """Raises KafkaError where the log is damaged, or the first batch does not end with the offset `last_there`."""
        for position, end, _, last_offset in extents(self.file, self.path, start, self.size):
            if end > self.size or (last_there is not None and last_offset != last_there):
                break
            if last_offset >= offset:
                return position
            last_there = None
        raise damaged_at(self.path, start)

    def end_within(self, start: int, limit: int) -> tuple[int, int]:
        """(end, offset there) of the whole batches from `start` that end at or before `limit`; at least one batch."""
        entry = self.offsets.floor_by_second(limit)
        if entry is not None and entry[1] > start:
            try:
                return self._end_from(start, entry[1], limit, self.base_offset + entry[0])
            except KafkaError:
                # The index is damaged, or the log: that comes out next.
                pass
        return self._end_from(start, start, limit)

    def _end_from(self, start: int, begin: int, limit: int, last_there: int | None = None) -> tuple[int, int]:
        for position, end, base_offset, last_offset in extents(self.file, self.path, begin, self.size):
            if last_there is not None and last_offset != last_there:
                raise damaged_at(self.path, begin)
            last_there = None
            if end > limit and position > start:
                return position, base_offset
            if end >= limit:
                return end, last_offset + 1
        return self.size, self.next_offset

    def region(self, start: int, max_bytes: int, *, min_one: bool, up_to: int) -> FileRegion | None:
        """Whole batches from the position `start`, below the offset `up_to`."""
        size, next_offset = self.size, self.next_offset
        if up_to < next_offset:
            bound = self.position_of(up_to)
            size, next_offset = (size, next_offset) if bound is None else (bound, up_to)
        if start >= size:
            return None
        if size - start > max_bytes:
            end, next_offset = self.end_within(start, start + max_bytes)
            if (end - start > max_bytes and not min_one) or end > size:
                return None
            size = end
        if self._is_doubtful:
            self._try(start, size)
        self.remember(next_offset, size)
        return FileRegion(self.file, start, size - start, self._doubt)

    def _doubt(self) -> None:
        self._is_doubtful = True

    def _try(self, start: int, end: int) -> None:
        """Read all of it, which is slow, but else each reader would lose its connection. Raises OSError, KafkaError."""
        if len(self.file.pread(end - start, start)) < end - start:
            raise damaged_at(self.path, start)
        self._is_doubtful = False

    def remember(self, offset: int, position: int) -> None:
        """A reader that goes on asks for this offset next: save it the look-up."""
        hints = self._hints
        if offset in hints:
            return
        if len(hints) >= _HINTS_MAX:
            del hints[next(iter(hints))]
        hints[offset] = position

    def search_start(self, timestamp: int, from_offset: int) -> int | None:
        """Where the batch starts before which no batch has a record from `from_offset` on that is so new.

        Whenever the indexes take in a batch they say how new the newest is by then, where that has changed: so the
        first one that is so new lies at most one interval before the entry that first says so.
        """
        entry = self.times.ceiling(timestamp)
        indexed = self.offsets.last() if entry is None else self.offsets.floor(entry[1] - 1)
        begin = max(from_offset, self.base_offset + (indexed[0] if indexed is not None else 0))
        if begin >= self.next_offset > from_offset:
            # The index is damaged.
            begin = from_offset
        return self.position_of(begin)

    def rename_away(self, suffix: str, moved: list[Path]) -> None:
        """Rename the files so that no restart sees a segment; they stay readable through open files.

        `moved` gets the new names. Raises OSError; what is renamed by then is in `moved`.
        """
        for path in (self.path, self.offsets.path, self.times.path):
            target = path.with_name(path.name + suffix)
            if self.fs.exists(path):
                self.fs.rename(path, target)
                moved.append(target)
