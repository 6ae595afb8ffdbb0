"""Finds the next whole batch of a segment after damage, and continues the scan there.

The header of a damaged batch usually has the right length, and the next batch begins after it. If the header itself is
damaged, the next batch is searched byte by byte. A candidate counts if its checksum is right and the next offset, or
the end of the file, follows directly: records may contain bytes that look like a batch. If length and offsets of the
damaged batch both lead to the candidate, nothing has to follow it, as that may be damaged, too.
"""

from collections.abc import Callable, Generator, Iterator

from broker_runtime.storage.disk.filesystem import File
from broker_runtime.storage.recovery.recovery import BatchScan, Damage, is_damage
from broker_runtime.storage.segment.damaged_ranges import DamagedRange
from broker_runtime.storage.segment.segment import Segment, count_scanned
from kafka_bytes.batches import HEADER_BYTES, MAGIC, OVERHEAD_BYTES, Header, checksum, parse_header

_MAGIC_AT = 16
_WINDOW_BYTES = 1 << 20
_PAGE_BYTES = 4096
_FAILED_READS_MAX = 64
"""Limit of failed reads: a bad disk may take seconds for each."""
_SUMMED_BYTES_MAX = 1 << 28
"""How many bytes are checksummed in search of one batch, which takes a tenth of a second."""
_CANDIDATES_MAX = 1_000_000
"""How many places that may begin a batch are tried, which takes a second."""


def scan_past(
    segment: Segment,
    damage: Damage,
    follows: int | None,
    index_interval: int,
    may_end: Callable[[Damage], bool],
    *,
    gaps: bool,
) -> Damage | None:
    """Count the readable batches after `damage`, and record the rest as the segment's damage.

    `follows` is the base offset of the next segment: all offsets up to it belong to this segment. Returns the damage
    where the log ends: one that `may_end` accepts or, in the last segment, one with nothing readable after it. Raises
    OSError.
    """
    steps = steps_past(segment, damage, follows, index_interval, may_end, gaps=gaps)
    try:
        while True:
            next(steps)
    except StopIteration as done:
        left: Damage | None = done.value
        return left


def steps_past(
    segment: Segment,
    damage: Damage,
    follows: int | None,
    index_interval: int,
    may_end: Callable[[Damage], bool],
    *,
    gaps: bool,
) -> Generator[int, None, Damage | None]:
    """Count the readable batches after `damage`, in steps that yield how many bytes were read.

    Returns the damage where the log ends.
    """
    file_bytes = segment.file.size()
    ranges: list[DamagedRange] = []
    left: Damage | None = damage
    is_end = False
    while left is not None and not is_end:
        found = yield from _next_batch(segment, left, file_bytes, follows, gaps=gaps)
        if found is None:
            break
        position, header = found
        ranges.append(DamagedRange(left.offset, header.base_offset, left.position, position, left.reason))
        segment.size, segment.next_offset = position, header.base_offset
        scan = BatchScan(
            segment, file_bytes, gaps=gaps, position=position, expected=header.base_offset, end_offset=follows
        )
        for each in scan:
            count_scanned(segment, each, index_interval)
            yield each.size
        left = scan.damage
        is_end = left is not None and may_end(left)
    if left is not None and follows is not None and not is_end:
        ranges.append(DamagedRange(left.offset, follows, left.position, file_bytes, left.reason))
        segment.size, segment.next_offset = file_bytes, follows
        left = None
    segment.take_damage(tuple(ranges))
    return left


def _next_batch(
    segment: Segment, damage: Damage, file_bytes: int, follows: int | None, *, gaps: bool
) -> Generator[int, None, tuple[int, Header] | None]:
    """(position, header) of the first whole batch after the damage; None if there is none."""
    file, summed, tried = _Readable(segment.file), 0, 0
    known = _known_next(file, damage)
    for position, header in _candidates(file, damage.position, file_bytes):
        tried += 1
        last = header.last_offset
        is_sane = header.length >= HEADER_BYTES - OVERHEAD_BYTES and header.last_offset_delta >= 0
        is_in_place = header.base_offset > damage.offset and (follows is None or last < follows)
        if tried > _CANDIDATES_MAX or summed > _SUMMED_BYTES_MAX:
            return None
        if not is_sane or not is_in_place or position + header.size > file_bytes:
            continue
        summed += header.size
        yield header.size
        batch = file.pread(header.size, position)
        if len(batch) < header.size or checksum(batch) != header.crc:
            continue
        is_known = (position, header.base_offset) == known
        if is_known or _is_followed(file, position + header.size, file_bytes, last + 1, gaps=gaps):
            return position, header
    return None


def _known_next(file: "_Readable", damage: Damage) -> tuple[int, int] | None:
    """Position and offset after the damaged batch according to its header, if that has the expected base offset."""
    head = file.pread(HEADER_BYTES, damage.position)
    header = parse_header(head) if len(head) == HEADER_BYTES else None
    if header is None or header.base_offset != damage.offset:
        return None
    return damage.position + header.size, header.last_offset + 1


class _Readable:
    """A file whose unreadable bytes are left out: a read of them returns nothing."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._failed = 0

    def pread(self, size: int, offset: int) -> bytes:
        """Read like `File.pread`. Raises OSErrors of the process or the whole disk, such as a shortage of memory."""
        if self._failed >= _FAILED_READS_MAX:
            return b""
        try:
            return self._file.pread(size, offset)
        except OSError as error:
            if not is_damage(error):
                raise
            self._failed += 1
            return b""


def _candidates(file: _Readable, start: int, stop: int) -> Iterator[tuple[int, Header]]:
    """Yield the end of the damaged batch by its header, then each place after `start` with the magic of a batch."""
    head = file.pread(HEADER_BYTES, start)
    end = start + parse_header(head).size if len(head) == HEADER_BYTES else start
    head = file.pread(HEADER_BYTES, end) if end > start else b""
    if len(head) == HEADER_BYTES and head[_MAGIC_AT] == MAGIC:
        yield end, parse_header(head)
    at = start + 1
    while at + HEADER_BYTES <= stop:
        window = file.pread(min(_WINDOW_BYTES, stop - at), at) or file.pread(min(_PAGE_BYTES, stop - at), at)
        found = window.find(MAGIC, _MAGIC_AT)
        while 0 <= found <= len(window) - (HEADER_BYTES - _MAGIC_AT):
            yield at + found - _MAGIC_AT, parse_header(window, found - _MAGIC_AT)
            found = window.find(MAGIC, found + 1)
        at += max(len(window) - HEADER_BYTES, 0) + 1 if window else _PAGE_BYTES


def _is_followed(file: _Readable, end: int, file_bytes: int, expected: int, *, gaps: bool) -> bool:
    if end + HEADER_BYTES > file_bytes:
        return end == file_bytes
    head = file.pread(HEADER_BYTES, end)
    if len(head) < HEADER_BYTES:
        # The next damage begins there.
        return True
    header = parse_header(head)
    # If its offset is the expected one, that batch may be damaged elsewhere.
    return header.base_offset == expected or (gaps and header.magic == MAGIC and header.base_offset > expected)
