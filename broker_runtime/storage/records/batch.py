"""Reads the broker's own uncompressed batches, and the times of records. Pure.

`kafka_bytes.batches` has the layout; here its errors become KafkaError.
"""

from collections.abc import Iterator
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError
from kafka_bytes import batches
from kafka_bytes.batches import HEADER_BYTES, Header, parse_header
from kafka_bytes.errors import FormatError
from kafka_bytes.varints import read_varlong


class Record(NamedTuple):
    """A record of a batch, with its own offset and timestamp, without headers."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def _corrupt() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, "the records do not match the batch header")


def iter_records(batch: bytes | bytearray | memoryview) -> Iterator[Record]:
    """Yield the records of one uncompressed batch.

    Raises KafkaError(INVALID_RECORD) if the records do not match the batch's header.
    """
    header = parse_header(batch)
    if header.compressed:
        raise ValueError("this reader does not decompress records")
    try:
        for offset, timestamp, key, value, _ in batches.read_records(header, bytes(batch[HEADER_BYTES : header.size])):
            yield Record(offset, timestamp, key, value)
    except FormatError:
        raise _corrupt() from None


def iter_times(header: Header, records: bytes) -> Iterator[tuple[int, int]]:
    """Yield (offset, timestamp) of each record of a batch.

    `records` are the decompressed bytes that follow the header. Raises KafkaError(INVALID_RECORD) if they do not match
    it. It skips keys, values and headers, which takes a third of the time of reading them.
    """
    at = 0
    try:
        for _ in range(header.record_count):
            size, at = read_varlong(records, at)
            stop = at + size
            if size < 0 or stop > len(records):
                raise _corrupt()
            time_delta, at = read_varlong(records, at + 1)
            offset_delta, _ = read_varlong(records, at)
            yield header.base_offset + offset_delta, header.base_timestamp + time_delta
            at = stop
    except IndexError:
        raise _corrupt() from None


def iter_batches(buffer: bytes | bytearray | memoryview) -> Iterator[tuple[Header, memoryview]]:
    """Yield the whole batches of a fetched region; a partial batch at the end is left out. Raises KafkaError."""
    try:
        yield from batches.iter_batches(buffer)
    except FormatError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
