"""Checks which of the bytes from a leader a follower may append: whole batches, intact, in order.

Pure. Offsets and leader epochs stay as the leader set them. They grow; a leader whose log was cleaned leaves some out.
"""

from collections.abc import Iterator
from struct import Struct

from broker_runtime.errors import ErrorCode, KafkaError
from kafka_bytes.batches import CRC_FROM, HEADER_BYTES, MAGIC, OVERHEAD_BYTES, Header, empty_batch, parse_header
from kafka_bytes.checksum import crc32c

_BASE = Struct(">q")


def leaders_batches(records: memoryview, next_offset: int, latest_epoch: int) -> Iterator[Header]:
    """Yield the headers of a leader's whole batches; a batch that is cut off at the end is left out.

    Raises KafkaError at the first batch that does not fit.
    """
    at = 0
    while at + HEADER_BYTES <= len(records):
        header = parse_header(records, at)
        if header.magic != MAGIC or header.length < HEADER_BYTES - OVERHEAD_BYTES or header.last_offset_delta < 0:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the leader sent no valid record batch at byte {at}")
        end = at + header.size
        if end > len(records):
            return
        if crc32c(records[at + CRC_FROM : end]) != header.crc:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the checksum of the batch at {header.base_offset} is wrong")
        # The base offset is outside the checksum: if it jumps, it must fit the base offset of the next batch.
        jumps = header.base_offset > next_offset and end + _BASE.size <= len(records)
        falls_back = jumps and _BASE.unpack_from(records, end)[0] <= header.last_offset
        if header.base_offset < next_offset or falls_back or header.leader_epoch < latest_epoch:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"the leader sent offset {header.base_offset} of epoch {header.leader_epoch}; expected offset "
                f"{next_offset} or later, of epoch {latest_epoch} or later",
            )
        yield header
        next_offset, latest_epoch = header.last_offset + 1, header.leader_epoch
        at = end


def batch_around(records: memoryview, offset: int) -> int | None:
    """Return the base offset of the first batch if `offset` lies inside it, after its first record; None otherwise.

    A leader whose log starts inside a batch, because records were deleted, still sends the whole batch (KIP-107).
    Raises KafkaError.
    """
    if len(records) < HEADER_BYTES:
        return None
    base = parse_header(records, 0).base_offset
    first = next(leaders_batches(records, base, -1), None)
    return base if first is not None and 0 <= base < offset <= first.last_offset else None


def without_overlap(records: memoryview, end: int, latest_epoch: int) -> memoryview:
    """Return the leader's batches, with an overlapping empty first batch reduced to its offsets from `end` on.

    Such a batch has no records: it takes offsets whose loss was accepted at the leader. A follower that was away may
    end among them, and keeps its records at these offsets. `latest_epoch` is the follower's: the batch gets it if it is
    newer.
    """
    if len(records) < HEADER_BYTES:
        return records
    first = parse_header(records, 0)
    if first.size != HEADER_BYTES or first.record_count or not first.base_offset < end <= first.last_offset:
        return records
    next(leaders_batches(records, first.base_offset, first.leader_epoch))
    rest = empty_batch(end, first.last_offset + 1, max(first.leader_epoch, latest_epoch))
    return memoryview(rest + records[HEADER_BYTES:])


class Run:
    """Adjacent batches in the leader's bytes, which one write can store."""

    __slots__ = ("_at", "_records", "headers", "size")

    def __init__(self, records: memoryview) -> None:
        self._records = records
        self._at = 0
        self.headers: list[Header] = []
        self.size = 0

    def add(self, header: Header) -> None:
        self.headers.append(header)
        self.size += header.size

    def take(self) -> tuple[list[Header], memoryview]:
        """Return the headers and bytes added since the last call; the run continues after them."""
        headers, data = self.headers, self._records[self._at : self._at + self.size]
        self._at += self.size
        self.headers, self.size = [], 0
        return headers, data
