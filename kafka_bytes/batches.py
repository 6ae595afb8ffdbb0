"""Kafka's record batch, version 2: its header, its checksum, and its records once they are decompressed.

Pure. Owns the byte layout; the rules for batches that clients may append are the broker's.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from kafka_bytes.checksum import crc32c
from kafka_bytes.errors import FormatError
from kafka_bytes.varints import append_varlong, read_varlong

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
RECORD_BYTES_MIN = 7
"""Least size of a record in bytes: length, attributes, two deltas, lengths of key and value, number of headers."""
OVERHEAD_BYTES = 12
"""Size of the base offset and the length field, which the length field does not count."""
CRC_FROM = 21
MAGIC = 2
CRC = Struct(">I")
TIMESTAMPS = Struct(">qq")
"""The base timestamp and the greatest timestamp."""
TIMESTAMPS_AT = 27

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
"""The attribute bit for a base timestamp from which a cleaning may drop the tombstones (KIP-534).

Timestamp deltas of records count from the base timestamp in any case.
"""

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1


class Header(NamedTuple):
    """A batch's header, field by field, in the order of the format; offsets and timestamps are Kafka's."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return self.length + OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Return the last record's sequence number; -1 for a batch without sequence numbers, as a coordinator writes.

        Markers have none either.
        """
        first = self.base_sequence
        return NO_SEQUENCE if first < 0 else advance_sequence(first, self.last_offset_delta)

    @property
    def newest_ms(self) -> int:
        """Return the greatest timestamp of the batch's records; -1 if a cleaning has removed all records."""
        return self.max_timestamp if self.record_count else NO_TIMESTAMP

    @property
    def compressed(self) -> bool:
        return self.attributes & COMPRESSION_MASK != 0


RecordHeader = tuple[str, bytes | None]
ParsedRecord = tuple[int, int, bytes | None, bytes | None, tuple[RecordHeader, ...]]
"""A record: offset, timestamp in ms, key, value, headers. It is unnamed, because names take a third of the time."""


class ProducerStamp(NamedTuple):
    """The producer that wrote a batch, and the sequence number of the batch's first record."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH
    base_sequence: int = NO_SEQUENCE


NO_PRODUCER = ProducerStamp()


def parse_header(buffer: bytes | bytearray | memoryview, at: int = 0) -> Header:
    return Header._make(HEADER.unpack_from(buffer, at))


def checksum(batch: bytes | bytearray | memoryview) -> int:
    return crc32c(memoryview(batch)[CRC_FROM:])


def advance_sequence(sequence: int, by: int) -> int:
    """Return the sequence number `by` records later; sequence numbers wrap from 2**31 - 1 to 0."""
    return (sequence + by) & 0x7FFFFFFF


def _varint(value: int) -> bytes:
    out = bytearray()
    append_varlong(out, value)
    return bytes(out)


class _Varints(dict[int, bytes]):
    """Encoded varints of nearly all lengths and deltas, from their first use on; others are encoded on each use."""

    def __missing__(self, value: int) -> bytes:
        encoded = _varint(value)
        if value < _KEPT_VARINTS:
            self[value] = encoded
        return encoded


_KEPT_VARINTS = 4_096
_VARINTS = _Varints()


def encode_batch(
    records: Sequence[tuple[bytes | None, bytes | None]],
    base_timestamp: int,
    producer: ProducerStamp = NO_PRODUCER,
    *,
    attributes: int = 0,
) -> bytes:
    """Return an uncompressed batch of these (key, value) pairs, all with the same timestamp, at base offset 0."""
    if not records:
        raise ValueError("a record batch must have at least one record")
    body = BatchBody()
    for key, value in records:
        body.add(key, value)
    return body.batch(base_timestamp, producer, attributes=attributes)


class BatchBody:
    """The records of an uncompressed batch, added one by one."""

    __slots__ = ("_parts", "count")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.count = 0

    def add(self, key: bytes | None, value: bytes | None) -> None:
        varints = _VARINTS
        key_length = varints[-1 if key is None else len(key)]
        value_length = varints[-1 if value is None else len(value)]
        delta = varints[self.count]
        record = b"".join((b"\x00\x00", delta, key_length, key or b"", value_length, value or b"", b"\x00"))
        self._parts += (varints[len(record)], record)
        self.count += 1

    def batch(self, base_timestamp: int, producer: ProducerStamp = NO_PRODUCER, *, attributes: int = 0) -> bytes:
        """Return the whole batch, at base offset 0."""
        return _headed(b"".join(self._parts), self.count, base_timestamp, producer, attributes)


def _headed(body: bytes, count: int, base_timestamp: int, producer: ProducerStamp, attributes: int) -> bytes:
    length = HEADER_BYTES - OVERHEAD_BYTES + len(body)
    times = (base_timestamp, base_timestamp)
    head = bytearray(HEADER.pack(0, length, -1, MAGIC, 0, attributes, count - 1, *times, *producer, count))
    CRC.pack_into(head, CRC_FROM - 4, crc32c(body, crc32c(memoryview(head)[CRC_FROM:])))
    return b"".join((head, body))


def empty_batch(first_offset: int, next_offset: int, leader_epoch: int) -> bytes:
    """Return a batch without records that takes these offsets, as a cleaning leaves it."""
    length = HEADER_BYTES - OVERHEAD_BYTES
    delta = next_offset - 1 - first_offset
    times = (NO_TIMESTAMP, NO_TIMESTAMP)
    head = bytearray(HEADER.pack(first_offset, length, leader_epoch, MAGIC, 0, 0, delta, *times, *NO_PRODUCER, 0))
    CRC.pack_into(head, CRC_FROM - CRC.size, crc32c(memoryview(head)[CRC_FROM:]))
    return bytes(head)


def iter_batches(buffer: bytes | bytearray | memoryview) -> Iterator[tuple[Header, memoryview]]:
    """Yield the whole batches of a fetched region; a partial batch at the end is left out.

    The magic and the checksum are not checked. Raises FormatError for an impossible length.
    """
    view = memoryview(buffer)
    at = 0
    while at + HEADER_BYTES <= len(view):
        header = parse_header(view, at)
        if header.length < HEADER_BYTES - OVERHEAD_BYTES:
            raise FormatError(f"a batch of {header.length} bytes cannot be")
        if at + header.size > len(view):
            return
        yield header, view[at : at + header.size]
        at += header.size


def read_records(header: Header, body: bytes) -> Iterator[ParsedRecord]:
    """Yield the records of a batch one by one, from the decompressed bytes that follow its header.

    Raises FormatError if they do not match the header.
    """
    base_offset, base_ms, last_delta = header.base_offset, header.base_timestamp, header.last_offset_delta
    fixed_ms = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    at = 0
    try:
        for _ in range(header.record_count):
            length, at = read_varlong(body, at)
            end = at + length
            if length < 0 or end > len(body):
                raise FormatError(f"a record of the batch at offset {base_offset} is cut off")
            delta_ms, at = read_varlong(body, at + 1)
            delta, at = read_varlong(body, at)
            if not 0 <= delta <= last_delta:
                # Delivering it would move the position past the next fetch: its records would then count as delivered.
                raise FormatError(f"a record is not within the offsets of the batch at offset {base_offset}")
            key, at = _read_bytes(body, at)
            value, at = _read_bytes(body, at)
            count, at = read_varlong(body, at)
            headers: tuple[RecordHeader, ...] = ()
            if count:
                headers, at = _read_headers(body, at, count)
            if at != end:
                raise FormatError(f"a record of the batch at offset {base_offset} does not have the size in its header")
            yield base_offset + delta, base_ms + delta_ms if fixed_ms is None else fixed_ms, key, value, headers
    except (IndexError, UnicodeDecodeError) as cause:
        raise FormatError(f"the records of the batch at offset {base_offset} cannot be read: {cause}") from cause
    if at != len(body):
        raise FormatError(f"bytes follow the last record of the batch at offset {base_offset}")


def _read_bytes(body: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varlong(body, at)
    if length < 0:
        return None, at
    end = at + length
    if end > len(body):
        raise IndexError("it ends too early")
    return body[at:end], end


def _read_headers(body: bytes, at: int, count: int) -> tuple[tuple[RecordHeader, ...], int]:
    if not 0 <= count <= len(body) - at:
        raise IndexError(f"a record announces {count} headers")
    found: list[RecordHeader] = []
    for _ in range(count):
        name, at = _read_bytes(body, at)
        value, at = _read_bytes(body, at)
        found.append(((name or b"").decode(), value))
    return tuple(found), at
