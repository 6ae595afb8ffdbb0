"""The records that a cleaning reads, and the batch that remains when some are removed. Pure.

A batch keeps its first and last offset and its producer's sequence numbers. The remaining records stay unchanged, byte
for byte, unless the batch gets its delete horizon (KIP-534): that replaces the base timestamp, and each record's time
counts from it then. Functions raise KafkaError if records do not match their batch.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from broker_runtime.config import LONG_MAX
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.records.compression import pack, unpack
from kafka_bytes.batches import (
    COMPRESSION_MASK,
    CRC,
    CRC_FROM,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    OVERHEAD_BYTES,
    Header,
)
from kafka_bytes.checksum import crc32c
from kafka_bytes.varints import append_varlong, read_varlong


class StoredRecord(NamedTuple):
    """A record in the decompressed bytes of its batch: its position, and the fields that decide whether it stays."""

    begin: int
    end: int
    time_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def body_of(header: Header, batch: memoryview, unpacked_bytes_max: int) -> bytes:
    """Return the batch's records, decompressed."""
    codec = header.attributes & COMPRESSION_MASK
    records = batch[HEADER_BYTES : header.size]
    return unpack(codec, records, unpacked_bytes_max) if codec else bytes(records)


def stored_records(body: bytes, count: int) -> Iterator[StoredRecord]:
    """Yield the records of the decompressed `body`, without values and headers."""
    at = 0
    made = tuple.__new__
    try:
        for _ in range(count):
            begin = at
            size, at = read_varlong(body, at)
            end = at + size
            byte = body[at + 1]
            at += 2
            if byte < 0x80:
                time = (byte >> 1) ^ -(byte & 1)
            else:
                time, at = read_varlong(body, at - 1)
            byte = body[at]
            at += 1
            if byte < 0x80:
                offset = (byte >> 1) ^ -(byte & 1)
            else:
                offset, at = read_varlong(body, at - 1)
            byte = body[at]
            at += 1
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
            else:
                length, at = read_varlong(body, at - 1)
            if length < 0:
                key = None
            else:
                key = body[at : at + length]
                at += length
            # The sign is in the lowest bit, whatever the length.
            has_value = not body[at] & 1
            if at >= end or end > len(body):
                raise _misfit()
            # The named tuple's constructor takes twice as long.
            yield made(StoredRecord, (begin, end, time, offset, key, has_value))
            at = end
    except IndexError:
        raise _misfit() from None


def rewritten(
    header: Header, batch: memoryview, body: bytes, kept: Sequence[StoredRecord], horizon_ms: int | None
) -> bytes:
    """Return a batch with only the records `kept`.

    Without records, the batch is a header that keeps the producer and the offsets. `horizon_ms` is given for a batch
    that has no delete horizon yet.
    """
    base_ms, attributes = header.base_timestamp, header.attributes
    if not kept:
        return _framed(header, b"", 0, attributes & ~COMPRESSION_MASK, header.max_timestamp, header.max_timestamp)
    newest_ms = header.max_timestamp
    if not attributes & LOG_APPEND_TIME:
        newest_ms = _long(base_ms + max(record.time_delta for record in kept))
    if horizon_ms is not None:
        attributes |= DELETE_HORIZON
        records = _moved(body, kept, base_ms - horizon_ms)
        base_ms = horizon_ms
    else:
        records = b"".join([body[record.begin : record.end] for record in kept])
    codec = attributes & COMPRESSION_MASK
    if codec:
        records = pack(codec, records, like=batch[HEADER_BYTES : header.size])
    return _framed(header, records, len(kept), attributes, base_ms, newest_ms)


def _framed(header: Header, records: bytes, count: int, attributes: int, base_ms: int, newest_ms: int) -> bytes:
    length = HEADER_BYTES - OVERHEAD_BYTES + len(records)
    changed = header._replace(
        length=length,
        attributes=attributes if count else attributes & ~DELETE_HORIZON,
        base_timestamp=base_ms,
        max_timestamp=newest_ms,
        record_count=count,
    )
    head = bytearray(HEADER.pack(*changed))
    CRC.pack_into(head, CRC_FROM - CRC.size, crc32c(records, crc32c(memoryview(head)[CRC_FROM:])))
    return bytes(head) + records


def _moved(body: bytes, kept: Sequence[StoredRecord], by_ms: int) -> bytes:
    """Return the records with `by_ms` added to each time."""
    out = bytearray()
    for record in kept:
        _, at = read_varlong(body, record.begin)
        moved = bytearray(body[at : at + 1])
        append_varlong(moved, _long(record.time_delta + by_ms))
        _, rest = read_varlong(body, at + 1)
        moved += body[rest : record.end]
        append_varlong(out, len(moved))
        out += moved
    return bytes(out)


def _long(ms: int) -> int:
    """Return the nearest time that fits: a producer sets the times of a batch, and bad ones must not stop a broker."""
    return max(~LONG_MAX, min(ms, LONG_MAX))


def _misfit() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, "the records do not match the batch header")
