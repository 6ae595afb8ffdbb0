"""The fetched records that are delivered."""

import struct
from collections.abc import Sequence
from typing import cast

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from sluicegate_consumer.errors import CorruptRecordsError
from sluicegate_consumer.wire.batches import Batch, delivered, records, split
from sluicegate_consumer.wire.compression import unpack
from sluicegate_consumer.wire.fetch import Aborted
from tests.support.logs.packed_batches import PACKERS, packed, timed, with_body, xerial

LIMIT = 1 << 20
CONTROL_AND_TRANSACTIONAL, TRANSACTIONAL = 0x30, 0x10


def built(values: Sequence[bytes | None], headers: Sequence[tuple[str, bytes]] = (), first: int = 0) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, LIMIT)
    for number, value in enumerate(values):
        builder.append(number, 100 + number, b"k%d" % number, value, list(headers))
    return struct.pack(">q", first) + bytes(builder.build())[8:]


def changed(batch: Batch, **fields: int) -> Batch:
    return batch._replace(header=batch.header._replace(**fields))


def batch(first: int, attributes: int = 0, producer_id: int = -1, marker: int | None = None) -> Batch:
    """A batch of one record, or of a marker."""
    (plain,) = split(memoryview(timed([5]) if marker is None else control(marker)))
    return changed(plain, base_offset=first, attributes=attributes, producer_id=producer_id)


def control(kind: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, LIMIT)
    builder.append(0, 5, struct.pack(">hh", 0, kind), b"", [])
    return bytes(builder.build())


@given(st.lists(st.one_of(st.none(), st.binary(max_size=300)), min_size=1, max_size=20), st.binary(max_size=9))
def test_records_come_as_they_were_produced(values: list[bytes | None], header: bytes) -> None:
    (found,) = split(memoryview(built(values, [("h", header)], first=7)))
    assert list(records(found, LIMIT)) == [
        (7 + number, 100 + number, b"k%d" % number, value, (("h", header),)) for number, value in enumerate(values)
    ]


@pytest.mark.parametrize("codec", [*PACKERS, "xerial"])
def test_every_codec_is_unpacked_within_a_limit(codec: int | str) -> None:
    plain = built([b"v" * 40_000] * 3)
    raw = packed(2, plain, xerial) if codec == "xerial" else packed(int(codec), plain)
    (found,) = split(memoryview(raw))
    assert [value for _, _, _, value, _ in records(found, LIMIT)] == [b"v" * 40_000] * 3
    with pytest.raises(CorruptRecordsError, match="unpacked_bytes_max=1000"):
        list(records(found, 1_000))


@pytest.mark.parametrize("codec", [1, 2, 3, 4, 7])
def test_invalid_compressed_data_raises_an_error(codec: int) -> None:
    (found,) = split(memoryview(with_body(codec, built([b"v"]), b"\x00rubbish")))
    with pytest.raises(CorruptRecordsError):
        list(records(found, LIMIT))


def test_the_last_batch_may_be_cut_short() -> None:
    first, second = built([b"a"]), built([b"b"], first=1)
    for length in range(len(first), len(first) + len(second)):
        assert [each.header.base_offset for each in split(memoryview((first + second)[:length]))] == [0]


def test_a_changed_byte_is_noticed() -> None:
    raw = bytearray(built([b"value"]))
    raw[-3] ^= 1
    with pytest.raises(CorruptRecordsError, match="checksum"):
        list(split(memoryview(raw)))


def test_older_formats_are_refused() -> None:
    raw = bytearray(built([b"value"]))
    raw[16] = 1
    with pytest.raises(CorruptRecordsError, match="format v1"):
        list(split(memoryview(raw)))


@given(st.binary(max_size=200), st.integers(1, 5))
def test_invalid_records_raise_one_kind_of_error(body: bytes, count: int) -> None:
    (found,) = split(memoryview(with_body(0, built([b"v"]), body)))
    try:
        list(records(changed(found, record_count=count), LIMIT))
    except CorruptRecordsError:
        return
    assert body, "nothing cannot be records"


def test_a_time_of_the_log_stands_for_all_records() -> None:
    (found,) = split(memoryview(timed([5, 9])))
    assert [at_ms for _, at_ms, _, _, _ in records(changed(found, attributes=8), LIMIT)] == [9, 9]


def test_aborted_transactions_and_markers_are_left_out() -> None:
    """Producer 1 aborts, then commits; 2 commits meanwhile."""
    log = [
        batch(0, TRANSACTIONAL, 1),
        batch(1, TRANSACTIONAL, 2),
        batch(2, 0),
        batch(3, CONTROL_AND_TRANSACTIONAL, 1, marker=0),
        batch(4, TRANSACTIONAL, 1),
        batch(5, CONTROL_AND_TRANSACTIONAL, 2, marker=1),
        batch(6, CONTROL_AND_TRANSACTIONAL, 1, marker=1),
    ]
    assert [each.header.base_offset for each in delivered(log, [Aborted(1, 0)], LIMIT)] == [1, 2, 4]
    assert [each.header.base_offset for each in delivered(log, [], LIMIT)] == [0, 1, 2, 4]


def test_cramjams_error_for_a_small_buffer_is_recognizable() -> None:
    with pytest.raises(Exception, match="buffer"):
        cramjam.snappy.decompress_raw_into(bytes(cramjam.snappy.compress_raw(b"v" * 100)), bytearray(1))


@pytest.mark.parametrize("codec", [2, 3, 4])
def test_highly_compressed_data_uses_little_more_space_than_its_content(codec: int) -> None:
    """The data does not take all allowed space, which takes a tenth of a second to be zeroed."""
    plain = built([b"v" * 100_000])
    (found,) = split(memoryview(packed(codec, plain)))
    unpacked = unpack(codec, found.packed, 128 << 20)
    assert isinstance(unpacked, memoryview)
    assert len(cast(bytearray, unpacked.obj)) < 10 * len(plain)


@pytest.mark.parametrize("last_offset", [7, 8])
def test_a_record_that_is_not_within_the_offsets_of_its_batch_is_an_error(last_offset: int) -> None:
    """Otherwise records after the batch would count as delivered."""
    (found,) = split(memoryview(built([b"a", b"b", b"c"], first=7)))
    with pytest.raises(CorruptRecordsError, match="not within"):
        list(records(changed(found, last_offset_delta=last_offset - 7), LIMIT))
