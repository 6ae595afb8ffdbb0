"""Record batches read back as they were built. The broker reads them with its own errors."""

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.records.batch import Record, iter_batches, iter_records
from kafka_bytes.batches import ProducerStamp, advance_sequence, checksum, encode_batch, parse_header

_VALUES = st.none() | st.binary(max_size=300)


@given(st.lists(st.tuples(_VALUES, _VALUES), min_size=1, max_size=20), st.integers(0, 2**50))
def test_a_batch_reads_back_as_it_was_built(records: list[tuple[bytes | None, bytes | None]], timestamp: int) -> None:
    batch = encode_batch(records, timestamp, ProducerStamp(9, 2, 40))
    header = parse_header(batch)
    assert header.size == len(batch)
    assert header.crc == checksum(batch) == crc32c.crc32c(batch[21:])
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 40)
    assert header.last_sequence == 40 + len(records) - 1
    wanted = [Record(number, timestamp, key, value) for number, (key, value) in enumerate(records)]
    assert list(iter_records(batch)) == wanted


def test_iter_batches_leaves_out_a_partial_one_at_the_end() -> None:
    first, second = encode_batch([(None, b"a")], 1), encode_batch([(None, b"b")], 2)
    found = [bytes(batch) for _, batch in iter_batches(first + second[:-1])]
    assert found == [first]


@given(st.binary(min_size=1, max_size=40))
def test_records_that_do_not_fit_the_header_are_refused_not_misread(noise: bytes) -> None:
    batch = bytearray(encode_batch([(b"key", b"v" * 50)], 1))
    batch[61 : 61 + len(noise)] = noise
    records: list[Record] = []
    code = None
    try:
        records = list(iter_records(batch))
    except KafkaError as error:
        code = error.code
    assert (code, len(records)) in [(None, 1), (ErrorCode.INVALID_RECORD, 0)]


def test_sequences_wrap_after_the_greatest_int() -> None:
    assert advance_sequence(2**31 - 1, 1) == 0
    assert advance_sequence(2**31 - 2, 3) == 1


def test_an_empty_batch_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([], 0)
