"""Record batches, as producers, leaders and consumers exchange them, and their compression."""

import struct
from collections.abc import Container, Iterable
from contextlib import suppress

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.records import compression
from broker_runtime.storage.records.batch import iter_batches, iter_records, iter_times
from broker_runtime.storage.records.leaders_batches import Run, batch_around, leaders_batches, without_overlap
from broker_runtime.storage.records.record_check import check_records
from broker_runtime.storage.records.validation import check_batch, stamped_header
from kafka_bytes.batches import (
    COMPRESSION_MASK,
    CRC_FROM,
    HEADER_BYTES,
    OVERHEAD_BYTES,
    checksum,
    empty_batch,
    encode_batch,
    parse_header,
)
from sluicegate_consumer.errors import CorruptRecordsError
from sluicegate_consumer.wire.batches import delivered, records, split
from sluicegate_consumer.wire.compression import unpack as consumer_unpack
from sluicegate_consumer.wire.fetch import Aborted
from tests.fuzz.target import Cut, Target
from tests.support.logs.packed_batches import packed, xerial

_UNPACKED_MAX = 1 << 20
_NOW_MS = 1_700_000_000_000
_DOCUMENTED = {
    ErrorCode.INVALID_RECORD,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_REQUEST,
}


def mended(batch: bytes) -> bytes:
    """Return the batch with a right length and checksum: changed bytes are then found by nothing else."""
    if len(batch) < HEADER_BYTES:
        return batch
    mended = bytearray(batch)
    struct.pack_into(">i", mended, 8, len(batch) - OVERHEAD_BYTES)
    struct.pack_into(">I", mended, CRC_FROM - 4, checksum(mended))
    return bytes(mended)


def _check_documented(error: KafkaError, codes: Container[ErrorCode]) -> None:
    assert error.code in codes, error


def _produced(data: bytes) -> None:
    """What a client produces: a batch that each record check accepts is read by consumers, record for record."""
    cut = Cut(data)
    mends, compacted = cut.number(2), cut.number(2)
    batch = mended(cut.rest()) if mends else cut.rest()
    config = TopicConfig(cleanup_policy=("compact",) if compacted else ("delete",))
    try:
        raw = check_batch(memoryview(batch), config, _NOW_MS)
        stamped_header(raw, memoryview(batch), 100, 3, _NOW_MS)
        check_records(batch, config, _UNPACKED_MAX, "orders-0")
    except KafkaError as error:
        _check_documented(error, _DOCUMENTED)
        return
    header = parse_header(batch)
    (whole,) = split(memoryview(batch))
    assert sum(1 for _ in records(whole, _UNPACKED_MAX)) == header.record_count
    codec = header.attributes & COMPRESSION_MASK
    body = batch[HEADER_BYTES:]
    times = list(iter_times(header, compression.unpack(codec, body, _UNPACKED_MAX) if codec else body))
    assert len(times) == header.record_count


def _batches() -> Iterable[bytes]:
    plain = encode_batch([(b"key", b"value"), (None, b""), (b"", None)], _NOW_MS)
    yield b"\x01\x00" + plain
    yield b"\x01\x01" + encode_batch([(b"key", b"value")], _NOW_MS)
    for codec in range(1, 5):
        yield b"\x01\x00" + packed(codec, encode_batch([(b"key", b"value" * 9)] * 3, _NOW_MS))
    yield b"\x01\x00" + packed(2, plain, xerial)


def _fetched(data: bytes) -> None:
    """What a consumer fetches."""
    cut = Cut(data)
    mends = cut.number(2)
    region = memoryview(mended(cut.rest()) if mends else cut.rest())
    with suppress(CorruptRecordsError):
        batches = list(split(region))
        for batch in delivered(batches, (Aborted(1, 0),), _UNPACKED_MAX):
            for _ in records(batch, _UNPACKED_MAX):
                pass


def _replicated(data: bytes) -> None:
    """What a follower fetches from its leader."""
    cut = Cut(data)
    mends, end = cut.number(2), cut.number(8)
    region = memoryview(mended(cut.rest()) if mends else cut.rest())
    with suppress(KafkaError):
        batch_around(region, end)
    with suppress(KafkaError):
        rest = without_overlap(region, end, 3)
        run = Run(rest)
        for header in leaders_batches(rest, end, 3):
            run.add(header)
        headers, taken = run.take()
        assert sum(header.size for header in headers) == len(taken)
        for header, batch in iter_batches(taken):
            assert checksum(batch) == header.crc
            if not header.compressed:
                with suppress(KafkaError):
                    for _ in iter_records(batch):
                        pass


def _regions() -> Iterable[bytes]:
    batch = encode_batch([(b"key", b"value")] * 2, _NOW_MS)
    yield b"\x00\x00" + batch + batch
    yield b"\x01\x02" + empty_batch(0, 4, 3)


def _compressed(data: bytes) -> None:
    """Both readers of compressed records agree, and none returns more than its limit."""
    cut = Cut(data)
    codec, limit = 1 + cut.number(4), 1 << cut.number(18)
    packed_bytes = cut.rest()
    try:
        found: bytes | None = compression.unpack(codec, packed_bytes, limit)
    except KafkaError as error:
        _check_documented(error, (ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE))
        found = None
    try:
        same: bytes | None = bytes(consumer_unpack(codec, memoryview(packed_bytes), limit))
    except CorruptRecordsError:
        same = None
    assert same == found
    if found is not None:
        assert len(found) <= limit
        again = compression.pack(codec, found, memoryview(packed_bytes))
        assert compression.unpack(codec, again, limit) == found


def _compressions() -> Iterable[bytes]:
    data = b"some records " * 20
    for codec in range(1, 5):
        yield bytes((codec - 1, 12)) + packed(codec, bytes(HEADER_BYTES) + data)[HEADER_BYTES:]
        yield bytes((codec - 1, 4)) + packed(codec, bytes(HEADER_BYTES) + data)[HEADER_BYTES:]
    yield b"\x01\x0c" + xerial(data)


TARGETS = (
    Target("produced-batch", _produced, _batches),
    Target("fetched-batches", _fetched, _batches),
    Target("replicated-batches", _replicated, _regions),
    Target("compression", _compressed, _compressions),
)
