"""Every record of one batch, looked at: for compacted topics, and where sluicegate.record.validation asks for it. Pure.

The header has been checked before. Kafka looks at every record of every batch; here that is what costs most of all, so
by default only what the header tells is checked (`validation`), and records where a rule is about records (keys).
"""

from collections.abc import Sequence

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, RecordsRefusedError
from broker_runtime.storage.batch import COMPRESSION_MASK, HEADER_BYTES, parse_header
from broker_runtime.storage.compression import unpack

ERRORS_MAX = 100
"""Bad records that are named in one answer; the others are counted."""
_QUICK_RECORDS = 100
_MALFORMED = "the record does not fit its batch"
_TRAILING = "bytes follow the last record of the batch"


def is_quick(batch: memoryview) -> bool:
    """Whether a look takes a few tens of microseconds; else it belongs into another thread."""
    header = parse_header(batch)
    return not header.compressed and header.record_count <= _QUICK_RECORDS


def check_records(batch: memoryview | bytes, config: TopicConfig, unpacked_bytes_max: int, partition: str) -> None:
    """Raise RecordsRefusedError naming the bad records, or KafkaError for what cannot be unpacked.

    `partition` is for messages: topic-number.
    """
    header = parse_header(batch)
    codec = header.attributes & COMPRESSION_MASK
    records = memoryview(batch)[HEADER_BYTES : header.size]
    body = unpack(codec, records, unpacked_bytes_max) if codec else bytes(records)
    missing, malformed = _look(body, header.record_count)
    without_key = f"Compacted topic cannot accept message without key in topic partition {partition}"
    errors = [(index, without_key) for index in missing] if config.compacted else []
    if malformed is not None:
        errors.append(malformed)
    if errors:
        raise RecordsRefusedError(ErrorCode.INVALID_RECORD, _summary(errors), errors[:ERRORS_MAX])


def _summary(errors: Sequence[tuple[int, str]]) -> str:
    first = "; ".join(f"record {index}: {text}" for index, text in errors[:3])
    return f"{len(errors)} of the batch's records have been rejected, among them {first}"


def _look(body: bytes, count: int) -> tuple[Sequence[int], tuple[int, str] | None]:
    """(the numbers of the records without a key, the first that is none and why: behind it nothing can be found)."""
    missing: list[int] = []
    at = index = 0
    try:
        for index in range(count):
            size, at = _varint(body, at)
            end = at + size
            if size < 0 or end > len(body):
                return missing, (index, _MALFORMED)
            _, at = _varint(body, at + 1)
            delta, at = _varint(body, at)
            key, at = _varint(body, at)
            if key < 0:
                missing.append(index)
            else:
                at += key
            value, at = _varint(body, at)
            headers, at = _varint(body, at + max(value, 0))
            if headers:
                at = _skip_headers(body, at, headers, end)
            if at != end or delta != index or headers < 0:
                return missing, (index, _MALFORMED)
    except IndexError:
        return missing, (index, _MALFORMED)
    return missing, None if at == len(body) else (count - 1, _TRAILING)


def _skip_headers(body: bytes, at: int, count: int, end: int) -> int:
    for _ in range(count):
        key, at = _varint(body, at)
        value, at = _varint(body, at + max(key, 0))
        at += max(value, 0)
        if key < 0 or at > end:
            return -1
    return at


def _varint(body: bytes, at: int) -> tuple[int, int]:
    byte = body[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value = byte & 0x7F
    shift = 7
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise IndexError("a number has more than ten bytes")
