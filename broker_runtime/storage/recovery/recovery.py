"""Checks whether a segment's file is intact, and cuts what a crash has left back to whole batches.

Segments from the recovery point on are checked batch by batch, and their indexes are rebuilt. The checks are length,
magic, CRC, and offsets that grow, without a gap unless the log may have gaps. Below the recovery point, and after a
clean stop, only the tail after the last index entry is checked.

Nothing on disk changes until one of three facts is known: the segment is good, its end may be cut, or the damage lies
between readable batches. `DamagedLogError` reports all other records that must exist.
"""

import errno
from collections.abc import Iterator
from dataclasses import dataclass

from broker_runtime.errors import KafkaError
from broker_runtime.storage.disk.filesystem import FsyncFailedError, is_shortage
from broker_runtime.storage.segment.index import RELATIVE_OFFSET_MAX
from broker_runtime.storage.segment.segment import Segment, count_scanned
from broker_runtime.storage.segment.segment_indexes import keep_in_memory
from kafka_bytes.batches import HEADER_BYTES, MAGIC, OVERHEAD_BYTES, Header, checksum, parse_header

_READ_BYTES = 1 << 20
_MAGIC_AT = 16
_BATCH_BYTES_MAX = 1 << 28
"""Limit of what a write that was cut off can leave behind, in bytes."""
_SUMMED_BYTES_MAX = 1 << 28
"""How many bytes are checksummed in search of a whole batch after damage; they take a tenth of a second."""


_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT)


def is_damage(error: OSError) -> bool:
    """Return whether the error concerns this one file (for example EIO), not the process or the whole disk.

    A failed fsync does not count: until the next boot, reads may return content that the disk does not have.
    """
    return not (is_shortage(error) or isinstance(error, FsyncFailedError) or error.errno in _OF_THE_DISK)


class DamagedLogError(Exception):
    """Error for records from `offset` on that must exist, but are missing or unreadable.

    Nothing was changed on disk.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"it is intact only up to offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


@dataclass
class RecoveryReport:
    """The result of `LogManager.open`: what was recovered. Its text is a line of the broker's log."""

    clean: bool = True
    partitions: int = 0
    segments_total: int = 0
    segments_scanned: int = 0
    indexes_rebuilt: int = 0
    bytes_truncated: int = 0
    segments_dropped: int = 0
    partitions_damaged: int = 0
    ranges_damaged: int = 0
    took_ms: int = 0

    @property
    def cut(self) -> tuple[int, int]:
        """Return the numbers of bytes and of segments that were removed."""
        return self.bytes_truncated, self.segments_dropped

    def __str__(self) -> str:
        kind = "clean" if self.clean else "unclean"
        return (
            f"log recovery after {kind} shutdown: {self.partitions} partitions, {self.segments_scanned} of "
            f"{self.segments_total} segments checked, {self.bytes_truncated} bytes truncated, "
            f"{self.segments_dropped} segments dropped, {self.indexes_rebuilt} indexes rebuilt, "
            f"{self.partitions_damaged} partitions and {self.ranges_damaged} ranges of offsets damaged, "
            f"{self.took_ms} ms"
        )


@dataclass(frozen=True, slots=True)
class Damage:
    """The damage in a segment's file, which has whole batches only up to `offset`, at byte `position`."""

    offset: int
    position: int
    reason: str
    torn: bool = False
    """Whether the file ends as a crash during a write leaves it: the beginning of one batch and nothing else."""
    followed: bool = False
    """Whether whole batches come after the damage. They are only searched for in the metadata log."""


class BatchScan:
    """Iterator of the headers of whole, intact batches of a segment's file, from `position` on.

    At the end, `damage` explains why no more follow. The first batch must have the offset `expected`.
    """

    def __init__(
        self,
        segment: Segment,
        file_bytes: int,
        *,
        gaps: bool,
        position: int = 0,
        expected: int | None = None,
        end_offset: int | None = None,
    ) -> None:
        """`gaps` allows missing offsets, as a cleaning leaves them. All offsets must be below a given `end_offset`.

        With gaps, only `end_offset` can show that the base offset of the last batch is wrong.
        """
        self.damage: Damage | None = None
        self._gaps = gaps
        self._segment = segment
        self._file_bytes = file_bytes
        self._position = position
        self._expected = segment.base_offset if expected is None else expected
        self._end_offset = end_offset

    def __iter__(self) -> Iterator[Header]:
        try:
            yield from self._scan()
        except OSError as error:
            if not is_damage(error):
                raise
            self._found(self._position, self._expected, f"cannot be read: {error}")

    def _scan(self) -> Iterator[Header]:
        position, expected = self._position, self._expected
        chunk, start = memoryview(b""), position
        while position + HEADER_BYTES <= self._file_bytes:
            at = position - start
            if at + HEADER_BYTES > len(chunk):
                chunk, start, at = self._read(position, HEADER_BYTES), position, 0
            header = parse_header(chunk, at)
            reason = self._misfit(header, expected)
            if reason is None and position + header.size > self._file_bytes:
                self._cut_off(header, position, expected)
                return
            if reason is None and at + header.size > len(chunk):
                chunk, start, at = self._read(position, header.size), position, 0
            if reason is None and checksum(chunk[at : at + header.size]) != header.crc:
                reason = "a batch does not match its checksum"
            if reason is None and header.base_offset > expected and self._falls_back(header, position):
                reason = f"a batch has offset {header.base_offset}, but the next one has a lower offset"
            if reason is not None:
                self._found(position, expected, reason)
                return
            yield header
            position = self._position = position + header.size
            expected = self._expected = header.last_offset + 1
        if position < self._file_bytes:
            self._found(position, expected, "a batch is cut off", torn=True)

    def _read(self, position: int, needed: int) -> memoryview:
        """At least `needed` bytes, and more if those after them can be read, too."""
        file = self._segment.file
        try:
            return memoryview(file.pread(max(needed, _READ_BYTES), position))
        except OSError as error:
            if not is_damage(error):
                raise
            return memoryview(file.pread(needed, position))

    def _misfit(self, header: Header, expected: int) -> str | None:
        if header.magic != MAGIC or header.length < HEADER_BYTES - OVERHEAD_BYTES:
            return "no record batch"
        if header.base_offset != expected and not (self._gaps and header.base_offset > expected):
            return f"a batch has offset {header.base_offset} instead of {expected}"
        if not 0 <= header.last_offset_delta <= RELATIVE_OFFSET_MAX - (header.base_offset - self._segment.base_offset):
            return f"a batch has {header.last_offset_delta + 1} offsets"
        if self._end_offset is not None and header.last_offset >= self._end_offset > expected:
            return f"a batch has offset {header.base_offset}, but the segment ends before {self._end_offset}"
        return None

    def _falls_back(self, header: Header, position: int) -> bool:
        """Whether the batch after one that leaves offsets out does not fit it: offsets are outside the checksum."""
        end = position + header.size
        if end + HEADER_BYTES > self._file_bytes:
            return False
        following = parse_header(self._segment.file.pread(HEADER_BYTES, end))
        return following.magic == MAGIC and following.base_offset <= header.last_offset

    def _cut_off(self, header: Header, position: int, expected: int) -> None:
        """Record a batch that extends past the end of the file: torn, or of a wrong length.

        The length is wrong if the rest of the file is a whole batch or has one in it.
        """
        size = self._file_bytes - position
        rest = self._segment.file.pread(size if size < _BATCH_BYTES_MAX else 0, position)
        torn = bool(rest) and checksum(rest) != header.crc and not _has_batch_of(rest, expected)
        self._found(position, expected, "a batch is cut off" if torn else "the length of a batch is wrong", torn=torn)

    def _found(self, position: int, offset: int, reason: str, *, torn: bool = False) -> None:
        where = f"{self._segment.path}, byte {position}: {reason}"
        self.damage = Damage(offset, position, where, torn)


def _has_batch_of(content: bytes, above: int) -> bool:
    """Whether a whole batch of a later offset begins after the first byte.

    Records may contain thousands of byte sequences that look like headers. When the search has reached its limit of
    checksummed bytes, the answer is yes: an undecided rest is not cut.
    """
    left = _SUMMED_BYTES_MAX
    at = content.find(MAGIC, _MAGIC_AT + 1)
    while 0 <= at <= len(content) - (HEADER_BYTES - _MAGIC_AT):
        start = at - _MAGIC_AT
        header = parse_header(content, start)
        is_whole = header.length >= HEADER_BYTES - OVERHEAD_BYTES and start + header.size <= len(content)
        batch = memoryview(content)[start : start + header.size] if is_whole and header.base_offset > above else None
        left -= 0 if batch is None else len(batch)
        if batch is not None and (left < 0 or checksum(batch) == header.crc):
            return True
        at = content.find(MAGIC, at + 1)
    return False


def is_followed(segment: Segment, damage: Damage) -> bool:
    """Whether a whole batch of a later offset follows the damage; reads the rest of the file."""
    rest = segment.file.pread(segment.file.size() - damage.position, damage.position)
    return _has_batch_of(rest, damage.offset)


def scan_segment(
    segment: Segment, index_interval: int, report: RecoveryReport, *, gaps: bool, end_offset: int | None = None
) -> Damage | None:
    """Count the intact batches at the beginning of the segment, and make their indexes in memory.

    Returns the damage that follows these batches. The files stay unchanged: `keep_scanned` stores the result.
    """
    segment.reset()
    segment.take_damage(())
    segment.indexes.renew()
    segment.indexes.aborted = None
    scan = BatchScan(segment, segment.file.size(), gaps=gaps, end_offset=end_offset)
    for header in scan:
        count_scanned(segment, header, index_interval)
    report.segments_scanned += 1
    return scan.damage


def keep_scanned(segment: Segment, report: RecoveryReport, *, sync: bool) -> None:
    """Cut off what `scan_segment` did not count, and write the indexes. A cut is synced in any case."""
    file_bytes = segment.file.size()
    is_cut = segment.size < file_bytes
    if is_cut:
        report.bytes_truncated += file_bytes - segment.size
        segment.truncate_tail()
    segment.index_time()
    if segment.damage:
        keep_in_memory(segment.indexes)
        segment.indexes.forget()
    if is_cut or sync:
        segment.flush()
    else:
        segment.indexes.write()


def load_quickly(segment: Segment, *, gaps: bool) -> bool:
    """Fill the segment's offsets, times and size from indexes that match the log.

    Returns False if the segment must be scanned.
    """
    try:
        return _indexes_fit(segment, gaps=gaps)
    except KafkaError:
        return False


def _indexes_fit(segment: Segment, *, gaps: bool) -> bool:
    if not segment.indexes.are_readable:
        return False
    segment.size = segment.file.size()
    last = segment.indexes.offsets.entries.last()
    if last is not None and not (0 <= last[1] < segment.size and last[0] >= 0):
        return False
    first = next(segment.headers(0), None)
    end, next_offset = (0, segment.base_offset) if last is None else (last[1], -1)
    for at, header in segment.headers(end):
        if last is not None and at == last[1]:
            next_offset = segment.base_offset + last[0] - header.last_offset_delta
            follows = header.base_offset == next_offset
        else:
            follows = header.base_offset == next_offset or (gaps and header.base_offset > next_offset)
        if not follows or header.last_offset_delta < 0:
            return False
        next_offset = segment.next_offset = header.last_offset + 1
        end = at + header.size
        if header.newest_ms > segment.max_timestamp:
            segment.max_timestamp = header.newest_ms
            segment.offset_of_max = header.last_offset
    if end != segment.size or segment.next_offset - 1 - segment.base_offset > RELATIVE_OFFSET_MAX:
        return False
    if first is not None and first[1].base_offset != segment.base_offset and not gaps:
        return False
    segment.first_timestamp = first[1].newest_ms if first is not None else -1
    segment.index_bytes = segment.indexes.bytes_needed
    return _newest_fits(segment)


def _newest_fits(segment: Segment) -> bool:
    """Whether the last time entry matches the batch that it names: retention uses it, so it must be verified."""
    newest = segment.indexes.times.entries.last()
    if newest is None:
        return True
    offset = segment.base_offset + newest[1]
    position = segment.position_of(offset) if segment.base_offset <= offset < segment.next_offset else None
    if position is None:
        return False
    _, header = next(segment.headers(position))
    if (header.newest_ms, header.last_offset) != (newest[0], offset):
        return False
    if newest[0] >= segment.max_timestamp:
        segment.max_timestamp, segment.offset_of_max = newest[0], offset
    return True
