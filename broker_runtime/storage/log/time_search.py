"""Offsets by time, exact to the record: the first record that is not older than a time, and the newest record.

The search skips damaged ranges, except one directly before the found record, which may have contained an earlier match.

The event loop reads the indexes: they give the stretch of a segment that can have the record, a few KB unless
`index.interval.bytes` is large. If the start of the stretch shows the record in a small batch, the search ends there: a
fetch reads as much on the event loop. Everything else is a step that reads the stretch and decompresses its batches. A
step may run in another thread: it uses an open file and numbers, nothing that the log changes.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from broker_runtime.errors import KafkaError
from broker_runtime.storage.disk.filesystem import File
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.batch import iter_times
from broker_runtime.storage.records.compression import unpack
from broker_runtime.storage.segment.damaged_ranges import DamagedRange, stretches, unreadable
from broker_runtime.storage.segment.segment import Segment
from broker_runtime.storage.segment.stored_batches import headers
from kafka_bytes.batches import COMPRESSION_MASK, HEADER_BYTES, LOG_APPEND_TIME, Header

_NEXT_OFFSET = attrgetter("next_offset")
_READ_HERE_BYTES = 8 * 1024
_LOOKED_AT_HERE = 200
"""Limit of batches skipped, and of records of one batch; each takes about a microsecond."""


class FoundRecord(NamedTuple):
    """A record that was found by time, and the leader epoch of its batch."""

    offset: int
    timestamp: int
    leader_epoch: int


Step = Callable[[], FoundRecord | None]
Search = Generator[Step, FoundRecord | None, FoundRecord | None]
"""A generator that yields steps to run, and is sent their results. Both raise KafkaError and OSError."""


def first_since(log: Log, timestamp: int, unpacked_bytes_max: int) -> Search:
    """Find the first record with `timestamp` or a later time.

    A compressed batch may decompress to `unpacked_bytes_max`. Raises KafkaError with CORRUPT_MESSAGE if the record may
    lie in a damaged range.
    """
    for segment in _segments(log):
        if segment.max_timestamp >= timestamp:
            start = _search_start(log, segment, timestamp)
            found = yield from _first_since(_stretch(log, segment, start, unpacked_bytes_max), timestamp)
            if found is not None:
                _check_before(log, found.offset)
                return found
    _check_before(log, log.log_end_offset)
    return None


def _search_start(log: Log, segment: Segment, timestamp: int) -> int | None:
    """Search the segment for the timestamp; a failure schedules a check of the segment. Raises OSError, KafkaError."""
    try:
        return segment.search_start(timestamp, log.log_start_offset)
    except (OSError, KafkaError):
        log.suspect(segment.base_offset)
        raise


def _check_before(log: Log, offset: int) -> None:
    """Raise KafkaError if a damaged range ends at `offset`.

    Times mostly grow from batch to batch, so only the last range before the record may contain an earlier match.
    """
    for damaged in log.damage:
        if damaged.next_offset == offset:
            raise unreadable(log.place.folder, damaged)


def newest(log: Log, unpacked_bytes_max: int) -> Search:
    """Find the record with the largest timestamp, the first of several (KIP-734)."""
    oldest: Segment | None = None
    known: Segment | None = None
    for segment in _segments(log):
        if segment.max_timestamp < 0:
            continue
        if _newest_begins_before(log.log_start_offset, segment):
            # The segment's newest record may be deleted: its other records have to be checked.
            oldest = segment
        elif known is None or segment.max_timestamp > known.max_timestamp:
            known = segment
    best = None
    if oldest is not None and (known is None or oldest.max_timestamp >= known.max_timestamp):
        start = _search_start(log, oldest, 0)
        best = yield _stretch(log, oldest, start, unpacked_bytes_max).newest
    if known is None or (best is not None and best.timestamp >= known.max_timestamp):
        return best
    start = known.position_of(known.offset_of_max)
    found = yield from _first_since(_stretch(log, known, start, unpacked_bytes_max), known.max_timestamp)
    return found if found is not None else best


def _newest_begins_before(offset: int, segment: Segment) -> bool:
    """Whether the batch with the newest record begins before `offset`; only the batch shows which record that is."""
    if segment.offset_of_max < offset or segment.base_offset >= offset:
        return segment.offset_of_max < offset
    position = segment.position_of(segment.offset_of_max)
    return position is not None and next(segment.headers(position))[1].base_offset < offset


def _segments(log: Log) -> Iterator[Segment]:
    """Yield the segments with records that count, each looked up when needed: others may have replaced it meanwhile."""
    offset = log.log_start_offset
    while (number := bisect_right(log.segments, offset, key=_NEXT_OFFSET)) < len(log.segments):
        segment = log.segments[number]
        yield segment
        offset = segment.next_offset


def _first_since(stretch: "_Stretch", timestamp: int) -> Search:
    found = stretch.first_since_nearby(timestamp)
    return found if found is not None else (yield partial(stretch.first_since, timestamp))


def _stretch(log: Log, segment: Segment, start: int | None, unpacked_bytes_max: int) -> "_Stretch":
    begin = segment.size if start is None else start
    end, damage = segment.size, segment.damage
    return _Stretch(segment.file, segment.path, begin, end, damage, log.log_start_offset, unpacked_bytes_max)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Part of a segment's file, from a batch's first byte on; records below `from_offset` do not count."""

    file: File
    path: Path
    start: int
    end: int
    damage: tuple[DamagedRange, ...]
    from_offset: int
    unpacked_bytes_max: int

    def first_since(self, timestamp: int) -> FoundRecord | None:
        for position, header in self._headers():
            if header.newest_ms >= timestamp:
                for found in self._records(position, header):
                    if found.timestamp >= timestamp:
                        return found
        return None

    def first_since_nearby(self, timestamp: int) -> FoundRecord | None:
        """Return the first record that is not older. None if there is none, or if reading a few KB does not find it."""
        nearby = replace(self, end=min(self.end, self.start + _READ_HERE_BYTES))
        for position, header in islice(nearby._headers(), _LOOKED_AT_HERE):
            if header.newest_ms >= timestamp:
                small = position + header.size <= nearby.end and header.record_count <= _LOOKED_AT_HERE
                if not small or header.attributes & COMPRESSION_MASK:
                    return None
                since = (found for found in self._records(position, header) if found.timestamp >= timestamp)
                return next(since, None)
        return None

    def newest(self) -> FoundRecord | None:
        """Return the newest record.

        Batches are compared by their headers, one that begins below `from_offset` by records.
        """
        best: FoundRecord | None = None
        batch: tuple[int, Header] | None = None
        for position, header in self._headers():
            if header.base_offset < self.from_offset:
                best = max(self._records(position, header), key=lambda found: found.timestamp, default=None)
            elif header.record_count and (batch is None or header.newest_ms > batch[1].newest_ms):
                batch = position, header
        if batch is None or (best is not None and best.timestamp >= batch[1].max_timestamp):
            return best
        newest = batch[1].max_timestamp
        return next((found for found in self._records(*batch) if found.timestamp >= newest), best)

    def _headers(self) -> Iterator[tuple[int, Header]]:
        for part in stretches(self.damage, self.start, self.end):
            for position, header in headers(self.file, self.path, *part):
                if header.last_offset >= self.from_offset:
                    yield position, header

    def _records(self, position: int, header: Header) -> Iterator[FoundRecord]:
        has_one_time = header.attributes & LOG_APPEND_TIME
        if has_one_time and header.record_count == header.last_offset_delta + 1:
            first = max(header.base_offset, self.from_offset)
            yield FoundRecord(first, header.max_timestamp, header.leader_epoch)
            return
        body = self.file.pread(header.size - HEADER_BYTES, position + HEADER_BYTES)
        codec = header.attributes & COMPRESSION_MASK
        if codec:
            body = unpack(codec, body, self.unpacked_bytes_max)
        for offset, timestamp in iter_times(header, body):
            if offset >= self.from_offset:
                yield FoundRecord(offset, header.max_timestamp if has_one_time else timestamp, header.leader_epoch)
