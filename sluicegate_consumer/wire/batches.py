"""Record batches (message format v2): splits them, selects those to deliver, and parses their records. Pure.

Raises CorruptRecordsError. It rejects formats before v2: no broker of Sluicegate stores them.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from kafka_bytes.checksum import crc32c
from kafka_bytes.varints import read_varlong
from sluicegate_consumer.errors import CorruptRecordsError
from sluicegate_consumer.wire.compression import unpack
from sluicegate_consumer.wire.fetch import Aborted

_SIZE = Struct(">qi")
_HEAD = Struct(">qiibIhiqqqhii")
_AFTER_SIZE = 12
_CRC_FROM = 21
_MAGIC_AT = 16
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_MARKER = Struct(">hh")
_ABORT = 0

Header = tuple[str, bytes | None]
Parsed = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]
"""A record: offset, timestamp in ms, key, value, headers."""


class Batch(NamedTuple):
    """A complete batch with a correct checksum."""

    base_offset: int
    last_offset: int
    attributes: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    record_count: int
    packed: memoryview

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)


def split(fetched: memoryview) -> Iterator[Batch]:
    """Yield the complete batches of a fetch; a truncated last batch is left out."""
    at = 0
    while len(fetched) - at >= _HEAD.size:
        _, length = _SIZE.unpack_from(fetched, at)
        end = at + _AFTER_SIZE + length
        magic = fetched[at + _MAGIC_AT]
        if magic != 2:
            raise CorruptRecordsError(f"records have message format v{magic}; only v2 is supported")
        if length < _HEAD.size - _AFTER_SIZE:
            raise CorruptRecordsError(f"the header of a batch has an invalid size, {length} bytes")
        if end > len(fetched):
            return
        (base, _, _, _, crc, attributes, last_delta, base_ms, max_ms, producer_id, _, _, count) = _HEAD.unpack_from(
            fetched, at
        )
        if crc32c(fetched[at + _CRC_FROM : end]) != crc:
            raise CorruptRecordsError(f"the checksum of the batch at offset {base} is wrong")
        packed = fetched[at + _HEAD.size : end]
        yield Batch(base, base + last_delta, attributes, base_ms, max_ms, producer_id, count, packed)
        at = end


def delivered(batches: Sequence[Batch], aborted: Sequence[Aborted], limit: int) -> list[Batch]:
    """Return the batches without control batches and without batches of aborted transactions.

    `aborted` is what the broker sent with them: nothing if uncommitted records are wanted.
    """
    begun = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    void: set[int] = set()
    wanted: list[Batch] = []
    for batch in batches:
        while begun and begun[-1].first_offset <= batch.last_offset:
            void.add(begun.pop().producer_id)
        if batch.is_control:
            if _is_abort(batch, limit):
                void.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in void):
            wanted.append(batch)
    return wanted


def _is_abort(batch: Batch, limit: int) -> bool:
    for _, _, key, _, _ in records(batch, limit):
        if key is None or len(key) < _MARKER.size:
            raise CorruptRecordsError(f"the control record at offset {batch.base_offset} has no key")
        return bool(_MARKER.unpack_from(key)[1] == _ABORT)
    return False


def records(batch: Batch, limit: int) -> Iterator[Parsed]:
    """Yield records one by one, so that a large batch does not block; decompresses to at most `limit` bytes."""
    data = unpack(batch.attributes & _CODEC, batch.packed, limit)
    base_offset, base_ms = batch.base_offset, batch.base_timestamp_ms
    last_delta = batch.last_offset - base_offset
    fixed_ms = batch.max_timestamp_ms if batch.attributes & _LOG_APPEND_TIME else None
    at = 0
    try:
        for _ in range(batch.record_count):
            length, at = read_varlong(data, at)
            end = at + length
            if length < 0 or end > len(data):
                raise CorruptRecordsError(f"a record of the batch at offset {base_offset} is cut off")
            delta_ms, at = read_varlong(data, at + 1)
            delta, at = read_varlong(data, at)
            if not 0 <= delta <= last_delta:
                # Delivering it would move the position past the next fetch: its records would then count as delivered.
                raise CorruptRecordsError(f"a record is not within the offsets of the batch at offset {base_offset}")
            key, at = _bytes(data, at)
            value, at = _bytes(data, at)
            count, at = read_varlong(data, at)
            headers: tuple[Header, ...] = ()
            if count:
                headers, at = _headers(data, at, count)
            if at != end:
                raise CorruptRecordsError(
                    f"a record of the batch at offset {base_offset} does not have the size in its header"
                )
            yield base_offset + delta, base_ms + delta_ms if fixed_ms is None else fixed_ms, key, value, headers
    except (IndexError, UnicodeDecodeError) as cause:
        raise CorruptRecordsError(
            f"the records of the batch at offset {base_offset} cannot be read: {cause}"
        ) from cause
    if at != len(data):
        raise CorruptRecordsError(f"bytes follow the last record of the batch at offset {base_offset}")


def _bytes(data: bytes | memoryview, at: int) -> tuple[bytes | None, int]:
    length, at = read_varlong(data, at)
    if length < 0:
        return None, at
    end = at + length
    if end > len(data):
        raise IndexError("it ends too early")
    return bytes(data[at:end]), end


def _headers(data: bytes | memoryview, at: int, count: int) -> tuple[tuple[Header, ...], int]:
    if not 0 <= count <= len(data) - at:
        raise IndexError(f"a record announces {count} headers")
    found: list[Header] = []
    for _ in range(count):
        name, at = _bytes(data, at)
        value, at = _bytes(data, at)
        found.append(((name or b"").decode(), value))
    return tuple(found), at
