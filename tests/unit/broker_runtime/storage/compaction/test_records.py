"""The batch after some of its records were removed equals the original one without them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.compaction.records import body_of, rewritten, stored_records
from broker_runtime.storage.records.batch import iter_records, iter_times
from kafka_bytes.batches import DELETE_HORIZON, LOG_APPEND_TIME, ProducerStamp, checksum, encode_batch, parse_header
from tests.support.logs.packed_batches import PACKERS, packed, timed, xerial

RECORDS = st.lists(st.tuples(st.none() | st.binary(max_size=200), st.none() | st.binary(max_size=200)), min_size=1)


@settings(max_examples=150)
@given(records=RECORDS, chosen=st.sets(st.integers(0, 40)), codec=st.integers(0, 4))
def test_kept_records_are_unchanged(
    records: list[tuple[bytes | None, bytes | None]], chosen: set[int], codec: int
) -> None:
    plain = encode_batch(records, 5000, ProducerStamp(7, 2, 9))
    batch = memoryview(packed(codec, plain) if codec else plain)
    header = parse_header(batch)
    body = body_of(header, batch, 1 << 20)
    stored = list(stored_records(body, header.record_count))
    assert [(record.key, record.has_value) for record in stored] == [(k, v is not None) for k, v in records]
    kept = [record for number, record in enumerate(stored) if number in chosen]
    left = memoryview(rewritten(header, batch, body, kept, None))
    after = parse_header(left)
    assert checksum(left) == after.crc
    assert after.size == len(left)
    assert after.record_count == len(kept)
    assert (after.base_offset, after.last_offset, after.last_sequence) == (0, len(records) - 1, 9 + len(records) - 1)
    assert after[8:12] == header[8:12]
    read = list(stored_records(body_of(after, left, 1 << 20), len(kept)))
    assert [record[2:] for record in read] == [record[2:] for record in kept]
    assert after.newest_ms == (5000 if kept else -1)


@pytest.mark.parametrize("codec", [0, *PACKERS])
def test_a_delete_horizon_leaves_times_as_they_were(codec: int) -> None:
    times = [7000, 5000, 9000, 2**40]
    batch = memoryview(timed(times, codec=codec))
    header = parse_header(batch)
    body = body_of(header, batch, 1 << 20)
    kept = list(stored_records(body, 4))[:3]
    left = memoryview(rewritten(header, batch, body, kept, 123_456_789))
    after = parse_header(left)
    assert (after.base_timestamp, after.max_timestamp) == (123_456_789, 9000)
    assert after.attributes & DELETE_HORIZON
    found = list(iter_times(after, body_of(after, left, 1 << 20)))
    assert found == [(0, 7000), (1, 5000), (2, 9000)]


def test_the_time_that_a_broker_has_set_stays_that_of_all() -> None:
    batch = memoryview(encode_batch([(b"a", b"1"), (b"b", b"2")], 5, attributes=LOG_APPEND_TIME))
    header = parse_header(batch)._replace(max_timestamp=900)
    body = body_of(header, batch, 1 << 20)
    left = rewritten(header, batch, body, list(stored_records(body, 2))[1:], None)
    assert [record.timestamp for record in iter_records(left)] == [900]


def test_javas_blocks_of_snappy_stay_blocks() -> None:
    batch = memoryview(packed(2, encode_batch([(b"a", b"1" * 99), (b"b", b"2")], 5), xerial))
    header = parse_header(batch)
    body = body_of(header, batch, 1 << 20)
    left = memoryview(rewritten(header, batch, body, list(stored_records(body, 2))[:1], None))
    assert bytes(left[61:69]) == bytes(batch[61:69]) == b"\x82SNAPPY\x00"
    assert [record.key for record in stored_records(body_of(parse_header(left), left, 1 << 20), 1)] == [b"a"]


@pytest.mark.parametrize("end", range(1, 20))
def test_records_that_are_cut_off_are_no_records(end: int) -> None:
    batch = memoryview(encode_batch([(b"key", b"value"), (b"key", b"value")], 5))
    body = body_of(parse_header(batch), batch, 1 << 20)
    with pytest.raises(KafkaError) as caught:
        list(stored_records(body[:-end], 2))
    assert caught.value.code == ErrorCode.INVALID_RECORD
