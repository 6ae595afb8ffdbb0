"""Record batches (message format v2): splits fetched bytes, and selects the batches and records to deliver. Pure.

Raises CorruptRecordsError. It rejects formats before v2: no broker of Sluicegate stores them.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from kafka_bytes.batches import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_FROM,
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL,
    Header,
    ParsedRecord,
    parse_header,
    read_records,
)
from kafka_bytes.checksum import crc32c
from kafka_bytes.errors import FormatError
from sluicegate_consumer.errors import CorruptRecordsError
from sluicegate_consumer.wire.compression import unpack
from sluicegate_consumer.wire.fetch import Aborted

_MARKER = Struct(">hh")
_ABORT = 0


class Batch(NamedTuple):
    """A complete batch with a correct checksum, and its records as they came."""

    header: Header
    packed: memoryview


def split(fetched: memoryview) -> Iterator[Batch]:
    """Yield the complete batches of a fetch. A truncated last batch is left out."""
    at = 0
    while len(fetched) - at >= HEADER_BYTES:
        header = parse_header(fetched, at)
        end = at + header.size
        if header.magic != MAGIC:
            raise CorruptRecordsError(f"records have message format v{header.magic}; only v2 is supported")
        if header.size < HEADER_BYTES:
            raise CorruptRecordsError(f"the header of a batch has an invalid size, {header.length} bytes")
        if end > len(fetched):
            return
        if crc32c(fetched[at + CRC_FROM : end]) != header.crc:
            raise CorruptRecordsError(f"the checksum of the batch at offset {header.base_offset} is wrong")
        yield Batch(header, fetched[at + HEADER_BYTES : end])
        at = end


def delivered(batches: Sequence[Batch], aborted: Sequence[Aborted], limit: int) -> list[Batch]:
    """Return the batches without control batches and without batches of aborted transactions.

    `aborted` is what the broker sent with them: nothing if uncommitted records are wanted.
    """
    begun = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    void: set[int] = set()
    wanted: list[Batch] = []
    for batch in batches:
        header = batch.header
        while begun and begun[-1].first_offset <= header.last_offset:
            void.add(begun.pop().producer_id)
        if header.attributes & CONTROL:
            if _is_abort(batch, limit):
                void.discard(header.producer_id)
        elif not (header.attributes & TRANSACTIONAL and header.producer_id in void):
            wanted.append(batch)
    return wanted


def _is_abort(batch: Batch, limit: int) -> bool:
    for _, _, key, _, _ in records(batch, limit):
        if key is None or len(key) < _MARKER.size:
            raise CorruptRecordsError(f"the control record at offset {batch.header.base_offset} has no key")
        return bool(_MARKER.unpack_from(key)[1] == _ABORT)
    return False


def records(batch: Batch, limit: int) -> Iterator[ParsedRecord]:
    """Yield the records of a batch one by one, so that a large batch does not block.

    Decompresses to at most `limit` bytes.
    """
    header = batch.header
    try:
        yield from read_records(header, bytes(unpack(header.attributes & COMPRESSION_MASK, batch.packed, limit)))
    except FormatError as error:
        raise CorruptRecordsError(str(error)) from error
