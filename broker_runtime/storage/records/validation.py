"""Decides from the header alone which batches a client may append, as Apache Kafka does.

Pure. The records are not read here; `record_check` reads them if the topic requires it. But the bytes must have room
for as many records as the header counts (`record_space`). The header's base and maximum timestamp decide whether
timestamps are valid: Kafka's own clients always set them. Kafka reads the records instead.
"""

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.records.record_space import has_room
from kafka_bytes.batches import (
    COMPRESSION_MASK,
    CONTROL,
    CRC,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_TIMESTAMP,
    OVERHEAD_BYTES,
    TRANSACTIONAL,
)
from kafka_bytes.checksum import crc32c
from kafka_bytes.compression import NAMES

RawHeader = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""The unnamed fields of `batch.Header`, in its order: naming them costs a microsecond on the produce path."""

_REFUSED_FLAGS = (
    (CONTROL, ErrorCode.INVALID_RECORD, "clients may not write control batches"),
    (
        LOG_APPEND_TIME,
        ErrorCode.INVALID_TIMESTAMP,
        "a producer may not set the timestamp type LogAppendTime",
    ),
)
_REFUSED_ATTRIBUTES = LOG_APPEND_TIME | CONTROL
_ZSTD = 4
CLIENTS_SEQUENCE_MIN = 0
COORDINATORS_SEQUENCE_MIN = -1
"""A group coordinator writes transactional batches for producers, without their sequence numbers."""


def check_batch(
    records: memoryview, config: TopicConfig, now_ms: int, sequence_min: int = CLIENTS_SEQUENCE_MIN
) -> RawHeader:
    """Return the header of the one batch in `records`. Raises KafkaError with the code that Kafka sends.

    A batch with a producer has a base sequence of at least `sequence_min`.
    """
    size = len(records)
    if size < HEADER_BYTES:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are too few for a record batch")
    raw: RawHeader = HEADER.unpack_from(records)
    (base, length, _, magic, crc, attributes, last_delta, base_time, max_time, producer, epoch, sequence, count) = raw
    if (
        magic != MAGIC
        or length != size - OVERHEAD_BYTES
        or size > config.max_message_bytes
        or base
        or last_delta != count - 1
        or count < 1
        or attributes & _REFUSED_ATTRIBUTES
        or attributes & COMPRESSION_MASK > _ZSTD
        or (sequence < sequence_min or epoch < 0 if producer >= 0 else attributes & TRANSACTIONAL)
    ):
        raise _refusal(raw, records, config)
    if crc32c(records[CRC_FROM:]) != crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the record batch does not match its bytes")
    codec = attributes & COMPRESSION_MASK
    if not has_room(codec, records, count):
        packing = f"as {NAMES[codec]}" if codec else "uncompressed"
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"the header counts {count} records, but {size - HEADER_BYTES} bytes, read {packing}, have no room "
            "for them",
        )
    if config.message_timestamp_type == "CreateTime" and (
        max_time - now_ms > config.message_timestamp_after_max_ms
        or now_ms - base_time > config.message_timestamp_before_max_ms
    ):
        _check_timestamps(base_time, max_time, config, now_ms)
    return raw


def check_known_codec(records: memoryview) -> None:
    """Refuse a batch whose codec a client of Produce 6 or earlier does not know (KIP-110). Raises KafkaError."""
    if len(records) < HEADER_BYTES:
        return
    raw: RawHeader = HEADER.unpack_from(records)
    if raw[3] == MAGIC and raw[5] & COMPRESSION_MASK == _ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "Produce requests with version < 7 are not allowed to use ZStandard compression",
        )


def _refusal(raw: RawHeader, records: memoryview, config: TopicConfig) -> KafkaError:
    """Return the reason for the refusal; the checks are in Kafka's order."""
    code = ErrorCode.INVALID_RECORD
    size = len(records)
    base, length, _, magic, _, attributes, last_delta, _, _, _, _, _, count = raw
    if magic in (0, 1):
        return KafkaError(code, f"message format {magic} is not supported; produce with format 2")
    if magic != MAGIC:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"unknown message format {magic}")
    extra = size - OVERHEAD_BYTES - length
    if length < HEADER_BYTES - OVERHEAD_BYTES or extra < 0 or 0 < extra < HEADER_BYTES:
        return KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"the header says that the batch has {length} bytes, but {size - OVERHEAD_BYTES} arrived",
        )
    if extra:
        return KafkaError(code, "a produce request must have exactly one record batch for each partition")
    if base:
        return KafkaError(code, f"the base offset of a produced batch must be 0, not {base}")
    if size > config.max_message_bytes:
        limit = config.max_message_bytes
        return KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, more than max.message.bytes={limit}; send smaller batches",
        )
    if count < 1 or last_delta != count - 1:
        return KafkaError(code, f"the batch counts {count} records, but its offsets span {last_delta + 1}")
    for flag, flag_code, text in _REFUSED_FLAGS:
        if attributes & flag:
            return KafkaError(flag_code, text)
    if attributes & COMPRESSION_MASK > _ZSTD:
        return KafkaError(code, f"unknown compression {attributes & COMPRESSION_MASK}")
    if attributes & TRANSACTIONAL and raw[9] < 0:
        return KafkaError(code, "a transactional batch needs a producer id")
    return KafkaError(code, "a batch with a producer id needs an epoch and a base sequence of 0 or more")


def _check_timestamps(base_ms: int, max_ms: int, config: TopicConfig, now_ms: int) -> None:
    after, before = config.message_timestamp_after_max_ms, config.message_timestamp_before_max_ms
    if max_ms - now_ms > after:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {max_ms} lies more than message.timestamp.after.max.ms={after} after the broker's {now_ms}",
        )
    if base_ms != NO_TIMESTAMP and now_ms - base_ms > before:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {base_ms} lies more than message.timestamp.before.max.ms={before} before the broker's {now_ms}",
        )


def stamped_header(raw: RawHeader, records: memoryview, base: int, leader_epoch: int, now_ms: int) -> bytearray:
    """Return the batch's header with LogAppendTime.

    As in Kafka, all records then have the header's maximum timestamp.
    """
    head = bytearray(
        HEADER.pack(base, raw[1], leader_epoch, raw[3], 0, raw[5] | LOG_APPEND_TIME, *raw[6:8], now_ms, *raw[9:])
    )
    crc = crc32c(records[HEADER_BYTES:], crc32c(memoryview(head)[CRC_FROM:]))
    CRC.pack_into(head, CRC_FROM - 4, crc)
    return head
