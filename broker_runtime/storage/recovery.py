"""Bringing a partition's files back to whole batches after a crash.

Segments from the recovery point on are scanned batch by batch (length, magic, CRC, rising offsets), cut at the first
bad byte and their indexes rebuilt; after a clean stop only the tail behind the last index entry is looked at.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from broker_runtime.errors import KafkaError
from broker_runtime.storage.batch import HEADER_BYTES, MAGIC, OVERHEAD_BYTES, Header, checksum, parse_header
from broker_runtime.storage.segment import Segment

_READ_BYTES = 1 << 20


@dataclass
class RecoveryReport:
    """What `LogManager.open` found and did; the text is the one line for the broker's log."""

    clean: bool = True
    partitions: int = 0
    segments_total: int = 0
    segments_scanned: int = 0
    indexes_rebuilt: int = 0
    bytes_truncated: int = 0
    segments_dropped: int = 0
    took_ms: int = 0

    def __str__(self) -> str:
        kind = "clean" if self.clean else "unclean"
        return (
            f"log recovery after {kind} shutdown: {self.partitions} partitions, {self.segments_scanned} of "
            f"{self.segments_total} segments checked, {self.bytes_truncated} bytes truncated, "
            f"{self.segments_dropped} segments dropped, {self.indexes_rebuilt} indexes rebuilt, {self.took_ms} ms"
        )


def valid_batches(segment: Segment, file_bytes: int) -> Iterator[Header]:
    """Headers of the whole, intact batches with rising offsets from the start of the file."""
    position, expected = 0, segment.base_offset
    chunk, start = memoryview(b""), 0
    while position + HEADER_BYTES <= file_bytes:
        at = position - start
        if at + HEADER_BYTES > len(chunk):
            chunk, start, at = memoryview(segment.file.pread(_READ_BYTES, position)), position, 0
        header = parse_header(chunk, at)
        if (
            header.magic != MAGIC
            or header.length < HEADER_BYTES - OVERHEAD_BYTES
            or position + header.size > file_bytes
            or header.base_offset < expected
            or header.last_offset_delta < 0
        ):
            return
        if at + header.size > len(chunk):
            size = max(header.size, _READ_BYTES)
            chunk, start, at = memoryview(segment.file.pread(size, position)), position, 0
        if checksum(chunk[at : at + header.size]) != header.crc:
            return
        yield header
        position += header.size
        expected = header.last_offset + 1


def scan_segment(segment: Segment, index_interval: int, report: RecoveryReport) -> None:
    """Keep the longest intact beginning of the segment and rebuild its indexes from it."""
    file_bytes = segment.file.size()
    segment.reset()
    segment.offsets.create()
    segment.times.create()
    for header in valid_batches(segment, file_bytes):
        segment.commit(header.size, header.last_offset, header.max_timestamp, index_interval)
    report.segments_scanned += 1
    if segment.size < file_bytes:
        report.bytes_truncated += file_bytes - segment.size
        segment.truncate_tail()
    segment.index_time()
    segment.flush()


def load_segment(segment: Segment, index_interval: int, report: RecoveryReport, *, scan: bool) -> None:
    """Fill the segment's offsets, times and size from its files."""
    segment.open()
    report.segments_total += 1
    if scan:
        scan_segment(segment, index_interval, report)
    elif not _load_quickly(segment):
        report.indexes_rebuilt += 1
        scan_segment(segment, index_interval, report)


def _load_quickly(segment: Segment) -> bool:
    """Trust the indexes where they fit the log; False when they must be rebuilt."""
    if not segment.offsets.exists() or not segment.times.exists():
        return False
    if segment.offsets.size() % segment.offsets.entry.size or segment.times.size() % segment.times.entry.size:
        return False
    last = segment.offsets.last()
    if last is not None and (last[1] >= segment.size or last[0] < 0):
        return False
    newest = segment.times.last()
    if newest is not None:
        segment.max_timestamp = newest[0]
        segment.offset_of_max = segment.base_offset + newest[1]
    end = last[1] if last is not None else 0
    try:
        for at, header in segment.headers(end):
            if last is not None and at == last[1] and header.last_offset != segment.base_offset + last[0]:
                return False
            segment.next_offset = header.last_offset + 1
            end = at + header.size
            if header.max_timestamp > segment.max_timestamp:
                segment.max_timestamp = header.max_timestamp
                segment.offset_of_max = header.last_offset
        first = next(segment.headers(0), None)
    except KafkaError:
        return False
    segment.first_timestamp = first[1].max_timestamp if first is not None else -1
    return end == segment.size
