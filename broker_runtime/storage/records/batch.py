"""Kafka's record batch, version 2: its header, its checksum, and its records if they are uncompressed.

Pure. Owns the byte layout; `validation` has the rules for batches that clients may append.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError
from kafka_bytes.checksum import crc32c
from kafka_bytes.varints import append_varlong, read_varlong

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, lengths of key and value, number of headers: at least a byte each."""
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
"""The base timestamp is the time from which a cleaning may drop the batch's tombstones (KIP-534).

Deltas count from it as always.
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
        return advance_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def newest_ms(self) -> int:
        """Greatest timestamp of its records; -1 if a cleaning has removed them all, whatever the header's field has."""
        return self.max_timestamp if self.record_count else NO_TIMESTAMP

    @property
    def compressed(self) -> bool:
        return self.attributes & COMPRESSION_MASK != 0


class Record(NamedTuple):
    """A record of a batch, with its own offset and timestamp; headers are left out."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


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
    """Encoded varints of nearly all lengths and deltas; others are encoded on each use."""

    def __missing__(self, value: int) -> bytes:
        return _varint(value)


_VARINTS = _Varints((value, _varint(value)) for value in range(-1, 4_096))


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


def _corrupt() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, "the records do not match the batch header")


def _read_bytes(buffer: memoryview, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = read_varlong(buffer, at)
    if size < 0:
        return None, at
    if at + size > end:
        raise _corrupt()
    return bytes(buffer[at : at + size]), at + size


def iter_records(batch: bytes | bytearray | memoryview) -> Iterator[Record]:
    """Yield the records of one uncompressed batch.

    Raises KafkaError(INVALID_RECORD) if they do not match the header.
    """
    buffer = memoryview(batch)
    header = parse_header(buffer)
    if header.compressed:
        raise ValueError("this reader does not decompress records")
    fixed_time = header.attributes & LOG_APPEND_TIME
    at = HEADER_BYTES
    end = header.size
    try:
        for _ in range(header.record_count):
            size, at = read_varlong(buffer, at)
            stop = at + size
            if size < 0 or stop > end:
                raise _corrupt()
            time_delta, at = read_varlong(buffer, at + 1)
            offset_delta, at = read_varlong(buffer, at)
            key, at = _read_bytes(buffer, at, stop)
            value, at = _read_bytes(buffer, at, stop)
            timestamp = header.max_timestamp if fixed_time else header.base_timestamp + time_delta
            yield Record(header.base_offset + offset_delta, timestamp, key, value)
            at = stop
    except IndexError:
        raise _corrupt() from None


def iter_times(header: Header, records: bytes) -> Iterator[tuple[int, int]]:
    """(offset, timestamp) of each record of a batch.

    `records` are the decompressed bytes that follow the header. Raises KafkaError(INVALID_RECORD) if they do not match
    it.
    """
    view, at = memoryview(records), 0
    try:
        for _ in range(header.record_count):
            size, at = read_varlong(view, at)
            stop = at + size
            if size < 0 or stop > len(view):
                raise _corrupt()
            time_delta, at = read_varlong(view, at + 1)
            offset_delta, _ = read_varlong(view, at)
            yield header.base_offset + offset_delta, header.base_timestamp + time_delta
            at = stop
    except IndexError:
        raise _corrupt() from None


def iter_batches(buffer: bytes | bytearray | memoryview) -> Iterator[tuple[Header, memoryview]]:
    """Yield the whole batches of a fetched region; a partial batch at the end is left out."""
    view = memoryview(buffer)
    at = 0
    while at + HEADER_BYTES <= len(view):
        header = parse_header(view, at)
        if header.length < HEADER_BYTES - OVERHEAD_BYTES:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {header.length} bytes cannot be")
        if at + header.size > len(view):
            return
        yield header, view[at : at + header.size]
        at += header.size
