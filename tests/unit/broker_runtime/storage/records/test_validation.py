import struct
from collections.abc import Callable

import pytest
from crc32c import crc32c

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.records.validation import check_batch
from kafka_bytes.batches import CONTROL, HEADER_BYTES, LOG_APPEND_TIME, TRANSACTIONAL, ProducerStamp, encode_batch
from kafka_bytes.compression import GZIP, LZ4, ZSTD
from tests.support.logs.packed_batches import PACKERS, packed, with_body

NOW_MS = 1_700_000_000_000
GOOD = encode_batch([(b"k", b"one"), (b"k", b"two")], NOW_MS)


def _patched(at: int, layout: str, value: int, batch: bytes = GOOD) -> bytes:
    """`batch` with one header field changed and a correct checksum."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, at, value)
    struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:]))
    return bytes(changed)


def _code(batch: bytes, config: TopicConfig) -> ErrorCode | None:
    try:
        check_batch(memoryview(batch), config, NOW_MS)
    except KafkaError as error:
        return error.code if error.message else None
    return None


def test_a_good_batch_passes_with_its_header() -> None:
    raw = check_batch(memoryview(GOOD), TopicConfig(), NOW_MS)
    assert raw[6] == 1
    assert raw[12] == 2


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (GOOD[:60], ErrorCode.CORRUPT_MESSAGE),
        (GOOD[:-1], ErrorCode.CORRUPT_MESSAGE),
        (GOOD + b"\x00", ErrorCode.CORRUPT_MESSAGE),
        (GOOD + GOOD, ErrorCode.INVALID_RECORD),
        (GOOD[:-1] + b"\x01", ErrorCode.CORRUPT_MESSAGE),
        (_patched(16, ">b", 1), ErrorCode.INVALID_RECORD),
        (_patched(16, ">b", 3), ErrorCode.CORRUPT_MESSAGE),
        (_patched(8, ">i", -5), ErrorCode.CORRUPT_MESSAGE),
        (_patched(0, ">q", 5), ErrorCode.INVALID_RECORD),
        (_patched(23, ">i", 5), ErrorCode.INVALID_RECORD),
        (_patched(23, ">i", -1), ErrorCode.INVALID_RECORD),
        (_patched(57, ">i", 0), ErrorCode.INVALID_RECORD),
        (_patched(21, ">h", CONTROL), ErrorCode.INVALID_RECORD),
        (_patched(21, ">h", TRANSACTIONAL), ErrorCode.INVALID_RECORD),
        (_patched(21, ">h", TRANSACTIONAL | CONTROL), ErrorCode.INVALID_RECORD),
        (_patched(21, ">h", LOG_APPEND_TIME), ErrorCode.INVALID_TIMESTAMP),
        (_patched(21, ">h", 5), ErrorCode.INVALID_RECORD),
        (
            _patched(53, ">i", -1, encode_batch([(b"k", b"v")], NOW_MS, ProducerStamp(1, 0, 0))),
            ErrorCode.INVALID_RECORD,
        ),
        (encode_batch([(b"k", b"v")], NOW_MS + 3_600_001), ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_batches_that_kafka_rejects_are_rejected_with_its_code(batch: bytes, code: ErrorCode) -> None:
    assert _code(batch, TopicConfig()) == code


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (TopicConfig(max_message_bytes=len(GOOD) - 1), ErrorCode.MESSAGE_TOO_LARGE),
        (TopicConfig(max_message_bytes=len(GOOD)), None),
        (TopicConfig(message_timestamp_before_max_ms=0, message_timestamp_after_max_ms=0), None),
        (TopicConfig(cleanup_policy=("compact",)), None),
    ],
)
def test_the_topic_sets_the_limits(config: TopicConfig, code: ErrorCode | None) -> None:
    assert _code(GOOD, config) == code


def test_old_timestamps_are_rejected_if_configured_and_missing_ones_never() -> None:
    limited = TopicConfig(message_timestamp_before_max_ms=10)
    assert _code(encode_batch([(None, b"v")], NOW_MS - 11), limited) == ErrorCode.INVALID_TIMESTAMP
    assert _code(encode_batch([(None, b"v")], -1), limited) is None
    assert _code(encode_batch([(None, b"v")], 0), TopicConfig()) is None


def test_log_append_time_ignores_the_producers_timestamps() -> None:
    stamped = TopicConfig(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=1)
    assert _code(encode_batch([(None, b"v")], 5), stamped) is None


def counting(count: int, batch: bytes) -> bytes:
    return _patched(57, ">i", count, _patched(23, ">i", count - 1, batch))


@pytest.mark.parametrize("codec", range(5))
def test_more_records_than_the_bytes_can_hold_are_refused(codec: int) -> None:
    """Otherwise a batch of a hundred bytes could take two thousand million offsets."""
    batch = GOOD if not codec else packed(codec, GOOD)
    assert _code(batch, TopicConfig()) is None
    assert _code(counting(2**31 - 1, batch), TopicConfig()) == ErrorCode.INVALID_RECORD


def of_bytes(count: int, body: bytes, codec: int = 0) -> bytes:
    """A batch that counts so many records, with these bytes behind its header."""
    return counting(count, with_body(codec, GOOD, body))


@pytest.mark.parametrize("body", [b"", bytes(14), bytes(1_000), b"\x0a" * 14, b"\xff" * 40], ids=len)
def test_records_that_are_none_are_refused(body: bytes) -> None:
    """librdkafka stops at two records in zero bytes, or of zero bytes each, without an error."""
    assert _code(of_bytes(2, body), TopicConfig()) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", PACKERS)
def test_two_records_in_no_bytes_are_refused_in_every_packing(codec: int) -> None:
    for empty in (PACKERS[codec](b""), b""):
        assert _code(of_bytes(2, empty, codec), TopicConfig()) == ErrorCode.INVALID_RECORD
    assert _code(of_bytes(2, PACKERS[codec](bytes(14)), codec), TopicConfig()) is None, "nothing is unpacked"


@pytest.mark.parametrize("count", [1, 3])
def test_a_short_batch_with_more_or_fewer_records_than_its_header_counts_is_refused(count: int) -> None:
    assert _code(of_bytes(count, GOOD[HEADER_BYTES:]), TopicConfig()) == ErrorCode.INVALID_RECORD


def test_a_record_whose_bytes_are_damaged_is_corrupt_and_not_wrong() -> None:
    """The producer then sends it again."""
    damaged = bytearray(GOOD)
    damaged[HEADER_BYTES] = 0
    assert _code(bytes(damaged), TopicConfig()) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_a_batch_without_its_codecs_header_is_rejected(codec: int) -> None:
    opaque = _patched(21, ">h", codec, encode_batch([(None, b"not really packed")], NOW_MS))
    assert _code(opaque, TopicConfig()) == ErrorCode.INVALID_RECORD


def test_flipping_any_byte_behind_the_leader_epoch_is_noticed() -> None:
    flips: list[Callable[[int], int]] = [lambda byte: byte ^ 1, lambda byte: byte ^ 0x80]
    for at in range(16, len(GOOD)):
        for flip in flips:
            bad = bytearray(GOOD)
            bad[at] = flip(bad[at])
            assert _code(bytes(bad), TopicConfig()) is not None
