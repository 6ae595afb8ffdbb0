"""The reading side of a segment: the position in its file of the batch with an offset, or a time.

The indexes determine where to begin and the batches' headers where to end: an index that does not match is ignored.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from broker_runtime.errors import KafkaError
from broker_runtime.storage.disk.filesystem import File
from broker_runtime.storage.segment.damaged_ranges import DamagedRange, range_at, stretches, unreadable
from broker_runtime.storage.segment.segment_indexes import SegmentIndexes
from broker_runtime.storage.segment.stored_batches import DamagedFileError, extents, headers, holds_batch_for
from broker_runtime.wire.reply import FileRegion
from kafka_bytes.batches import Header

_HINTS_MAX = 64
NOT_CHECKED = float("-inf")


class SegmentReader:
    """The reads of a segment's first `size` bytes: the whole batches from `base_offset` up to `next_offset`.

    Methods raise OSError, and KafkaError with KAFKA_STORAGE_ERROR when the file is damaged.
    """

    __slots__ = (
        "_hints",
        "_is_doubtful",
        "base_offset",
        "checked_s",
        "damage",
        "file",
        "indexes",
        "next_offset",
        "path",
        "size",
    )

    def __init__(self, path: Path, base_offset: int, indexes: SegmentIndexes) -> None:
        self.path = path
        self.base_offset = base_offset
        self.indexes = indexes
        self.file: File
        self.size = 0
        self.next_offset = base_offset
        self.damage: tuple[DamagedRange, ...] = ()
        """Parts of the segment that are known to be unreadable, in order."""
        self.checked_s = NOT_CHECKED
        """Time of the last check for damage in this process, in seconds of the monotonic clock, or NOT_CHECKED."""
        self._is_doubtful = False
        """A returned region could not be read: until a read succeeds, regions are read before they are returned."""
        self._hints: dict[int, int] = {}

    @property
    def aborted_count(self) -> int:
        """Return the number of aborted transactions whose marker lies in the segment."""
        aborted = self.indexes.aborted
        return 0 if aborted is None else len(aborted)

    def headers(self, position: int, end: int | None = None) -> Iterator[tuple[int, Header]]:
        """Yield (position, header) of the readable batches from `position` on, up to `end` or the segment's size."""
        stop = self.size if end is None else end
        if not self.damage:
            return headers(self.file, self.path, position, stop)
        file, path = self.file, self.path
        return chain.from_iterable(headers(file, path, *part) for part in stretches(self.damage, position, stop))

    def _extents(self, position: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (position, end, base offset, last offset) of the batches outside of damaged ranges."""
        if not self.damage:
            return extents(self.file, self.path, position, stop)
        file, path = self.file, self.path
        return chain.from_iterable(extents(file, path, *part) for part in stretches(self.damage, position, stop))

    def take_damage(self, ranges: tuple[DamagedRange, ...]) -> None:
        """Replace the damaged ranges of the segment, which are not read any more."""
        self.damage = ranges
        self._hints.clear()

    def position_from(self, offset: int) -> int | None:
        """Return the position of the batch that has `offset`.

        If no batch has `offset`, or that batch is damaged, return the position of the next readable batch.
        """
        damaged = range_at(self.damage, offset)
        if damaged is None:
            return self.position_of(offset)
        return damaged.end if damaged.end < self.size else None

    def position_of(self, offset: int) -> int | None:
        """Return the position of the batch that has `offset`, or of the next one if none has it; None past the end.

        Raises KafkaError with CORRUPT_MESSAGE for an offset in a damaged range.
        """
        if offset >= self.next_offset:
            return None
        if self.damage and (damaged := range_at(self.damage, offset)) is not None:
            raise unreadable(self.path, damaged)
        hint = self._hints.get(offset)
        if hint is not None:
            if holds_batch_for(self.file, hint, self.size, offset):
                return hint
            # The file was damaged since; the search finds out.
            del self._hints[offset]
        entry = self.indexes.offsets.entries.floor(offset - self.base_offset)
        position = None if entry is None else self._position_behind(entry, offset)
        if position is None:
            position = self._search(offset, 0)
        # A reader that waits for more asks again and again.
        self._remember(offset, position)
        return position

    def _position_behind(self, entry: tuple[int, int], offset: int) -> int | None:
        """Return the position of the batch at `offset`, searched from an index entry.

        None if the entry names no batch, because the index is damaged.
        """
        try:
            return self._search(offset, entry[1], self.base_offset + entry[0]) if entry[1] >= 0 else None
        except KafkaError:
            return None

    def _search(self, offset: int, start: int, last_there: int | None = None) -> int:
        """Position of the first batch from `start` on that ends at `offset` or later.

        Raises KafkaError when the log is damaged, or when the first batch does not end with the offset `last_there`.
        """
        for position, end, _, last_offset in self._extents(start, self.size):
            if end > self.size or (last_there is not None and last_offset != last_there):
                break
            if last_offset >= offset:
                return position
            last_there = None
        raise DamagedFileError(self.path, start)

    def end_position(self, offset: int) -> int | None:
        """Return the position to cut the file at, so that the segment ends at `offset`; None past the end.

        A batch or a damaged range ends or begins at `offset`.
        """
        for damaged in self.damage:
            if damaged.first_offset == offset:
                return damaged.position
        return self.position_of(offset)

    def end_below(self, offset: int) -> int:
        """Return the end of the last batch that ends at or below `offset`; the base offset without such a batch.

        A damaged range counts as one batch.
        """
        for damaged in self.damage:
            if damaged.first_offset <= offset <= damaged.next_offset:
                return damaged.next_offset if offset == damaged.next_offset else damaged.first_offset
        position = self.position_of(offset)
        if position is None:
            return self.next_offset
        # Offsets before that batch may be missing.
        entry = self.indexes.offsets.entries.floor(offset - 1 - self.base_offset)
        try:
            return self._end_before(position, entry)
        except KafkaError:
            # Either the index or the log is damaged: the next search finds out.
            return self._end_before(position, None)

    def _end_before(self, position: int, entry: tuple[int, int] | None) -> int:
        """Return the offset after the last one before `position`, where a batch begins.

        The search starts at `entry`.
        """
        end, begin, last_there = (self.base_offset, 0, None) if entry is None else (-1, entry[1], entry[0])
        for at, _, _, last_offset in self._extents(begin, position):
            if last_there is not None and last_offset != self.base_offset + last_there:
                raise DamagedFileError(self.path, at)
            end, last_there = last_offset + 1, None
        if end < 0:
            raise DamagedFileError(self.path, begin)
        return end

    def _end_within(self, start: int, limit: int, stop: int) -> tuple[int, int]:
        """(end, offset there) of the whole batches from `start` that end at or before `limit`; at least one batch.

        Nothing is read from `stop` on, which lies after `limit`: it may be damaged.
        """
        entry = self.indexes.offsets.entries.floor_by_second(limit)
        if entry is not None and entry[1] > start:
            try:
                found = self._end_from(start, entry[1], limit, stop, self.base_offset + entry[0])
            except KafkaError:
                # Either the index or the log is damaged: the search below finds out.
                pass
            else:
                _, first_end, _, _ = next(self._extents(start, self.size))
                if first_end > entry[1]:
                    # The reader would get a part of an oversized batch, and repeat the same request forever.
                    raise DamagedFileError(self.path, start)
                return found
        return self._end_from(start, start, limit, stop)

    def _end_from(
        self, start: int, begin: int, limit: int, stop: int, last_there: int | None = None
    ) -> tuple[int, int]:
        for position, end, base_offset, last_offset in extents(self.file, self.path, begin, stop):
            if last_there is not None and last_offset != last_there:
                raise DamagedFileError(self.path, begin)
            last_there = None
            if end > limit and position > start:
                return position, base_offset
            if end >= limit:
                return end, last_offset + 1
        raise DamagedFileError(self.path, begin)

    def region(self, start: int, max_bytes: int, *, min_one: bool, up_to: int) -> FileRegion | None:
        """Return the whole batches from the position `start`, below the offset `up_to`."""
        size, next_offset = self.size, self.next_offset
        for damaged in self.damage:
            if damaged.position >= start:
                size, next_offset = damaged.position, damaged.first_offset
                break
        if up_to < next_offset:
            bound = self.position_of(up_to)
            size, next_offset = (size, next_offset) if bound is None else (bound, up_to)
        if start >= size:
            return None
        if size - start > max_bytes:
            end, next_offset = self._end_within(start, start + max_bytes, size)
            if end > size:
                raise DamagedFileError(self.path, start)
            if end - start > max_bytes and not min_one:
                return None
            size = end
        if self._is_doubtful:
            self._try(start, size)
        self._remember(next_offset, size)
        return FileRegion(self.file, start, size - start, self._doubt, next_offset)

    def _doubt(self) -> None:
        self._is_doubtful = True

    def _try(self, start: int, end: int) -> None:
        """Read the region completely. Raises OSError, KafkaError.

        This is slow, but without it each reader would lose its connection.
        """
        if len(self.file.pread(end - start, start)) < end - start:
            raise DamagedFileError(self.path, start)
        self._is_doubtful = False

    def _remember(self, offset: int, position: int) -> None:
        """Save the search for a reader that continues: it asks for this offset next."""
        hints = self._hints
        if offset in hints:
            return
        if len(hints) >= _HINTS_MAX:
            del hints[next(iter(hints))]
        hints[offset] = position

    def search_start(self, timestamp: int, from_offset: int) -> int | None:
        """Return the position at which to search for the first record of `timestamp` or later; None past the end.

        No record from `from_offset` on and before this position is as new as `timestamp`. With each offset entry, the
        time index gets an entry if the greatest timestamp has changed. So the first batch that is new enough lies at
        most one index interval before the first entry with such a timestamp.
        """
        entry = self.indexes.times.entries.ceiling(timestamp)
        indexed = (
            self.indexes.offsets.entries.last() if entry is None else self.indexes.offsets.entries.floor(entry[1] - 1)
        )
        begin = max(from_offset, self.base_offset + (indexed[0] if indexed is not None else 0))
        if begin >= self.next_offset > from_offset:
            # The index is damaged.
            begin = from_offset
        return self.position_from(begin)
