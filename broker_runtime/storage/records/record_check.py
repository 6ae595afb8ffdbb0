"""Checks each record of a batch, for compacted topics and if sluicegate.record.validation is `all`. Pure.

The caller has checked the header. Kafka checks each record of each batch. Here that would cost more than the rest of a
request. So by default `validation` checks the header, and records are checked only if a rule is about records (keys).
"""

from collections.abc import Sequence

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, RecordsRefusedError
from broker_runtime.storage.records.compression import unpack
from kafka_bytes.batches import COMPRESSION_MASK, HEADER_BYTES, parse_header
from kafka_bytes.varints import read_varlong

ERRORS_MAX = 100
"""Limit of the bad records that one response names; the others are counted."""
_QUICK_RECORDS = 100
_MALFORMED = "the record does not fit its batch"
_TRAILING = "bytes follow the last record of the batch"


def is_quick(batch: memoryview) -> bool:
    """Return whether a check of the batch takes only some tens of microseconds.

    Other checks belong into another thread.
    """
    header = parse_header(batch)
    return not header.compressed and header.record_count <= _QUICK_RECORDS


def check_records(batch: memoryview | bytes, config: TopicConfig, unpacked_bytes_max: int, partition: str) -> None:
    """Raise RecordsRefusedError naming the bad records, or KafkaError if the batch cannot be decompressed.

    `partition` is for messages: topic-number.
    """
    header = parse_header(batch)
    codec = header.attributes & COMPRESSION_MASK
    records = memoryview(batch)[HEADER_BYTES : header.size]
    body = unpack(codec, records, unpacked_bytes_max) if codec else bytes(records)
    without_key, malformed = _scan(body, header.record_count)
    keyless = f"Compacted topic cannot accept message without key in topic partition {partition}"
    errors = [(index, keyless) for index in without_key.first] if config.compacted else []
    count = without_key.count if config.compacted else 0
    if malformed is not None:
        errors.append(malformed)
        count += 1
    if errors:
        raise RecordsRefusedError(ErrorCode.INVALID_RECORD, _summary(count, errors), errors[:ERRORS_MAX])


def _summary(count: int, errors: Sequence[tuple[int, str]]) -> str:
    first = "; ".join(f"record {index}: {text}" for index, text in errors[:3])
    return f"{count} of the batch's records have been rejected, among them {first}"


class _WithoutKey:
    """The records of one batch that have no key: their count, and the indexes of the first ERRORS_MAX."""

    __slots__ = ("count", "first")

    def __init__(self) -> None:
        self.count = 0
        self.first: list[int] = []

    def add(self, index: int) -> None:
        self.count += 1
        if self.count <= ERRORS_MAX:
            self.first.append(index)


def _scan(body: bytes, count: int) -> tuple[_WithoutKey, tuple[int, str] | None]:
    """Return the records without a key, and the first malformed record with its fault.

    Later records are not checked.
    """
    missing = _WithoutKey()
    at = index = 0
    try:
        for index in range(count):
            size, at = read_varlong(body, at)
            end = at + size
            if size < 0 or end > len(body):
                return missing, (index, _MALFORMED)
            _, at = read_varlong(body, at + 1)
            delta, at = read_varlong(body, at)
            key, at = read_varlong(body, at)
            if key < 0:
                missing.add(index)
            else:
                at += key
            value, at = read_varlong(body, at)
            headers, at = read_varlong(body, at + max(value, 0))
            if headers:
                at = _skip_headers(body, at, headers, end)
            if at != end or delta != index or headers < 0:
                return missing, (index, _MALFORMED)
    except IndexError:
        return missing, (index, _MALFORMED)
    return missing, None if at == len(body) else (count - 1, _TRAILING)


def _skip_headers(body: bytes, at: int, count: int, end: int) -> int:
    for _ in range(count):
        key, at = read_varlong(body, at)
        value, at = read_varlong(body, at + max(key, 0))
        at += max(value, 0)
        if key < 0 or at > end:
            return -1
    return at
