"""The control batch that ends a transaction."""

import struct

import pytest

from kafka_bytes.batches import CONTROL, TRANSACTIONAL, checksum, encode_batch, parse_header
from kafka_bytes.control import MARKER_BYTES, Marker, encode_marker, parse_marker
from kafka_bytes.errors import FormatError


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_is_read_as_it_was_written(is_commit: bool) -> None:
    marker = Marker(2**40, 32_767, is_commit, 5)
    batch = encode_marker(marker, 1_700_000_000_000)
    header = parse_header(batch)
    assert (len(batch), checksum(batch)) == (MARKER_BYTES, header.crc)
    assert header.attributes == TRANSACTIONAL | CONTROL
    assert (header.base_sequence, header.last_sequence, header.record_count) == (-1, -1, 1)
    assert (header.producer_id, header.producer_epoch, header.max_timestamp) == (2**40, 32_767, 1_700_000_000_000)
    assert parse_marker(batch) == marker


def test_the_transaction_version_is_not_stored() -> None:
    assert parse_marker(encode_marker(Marker(1, 2, True, 3, 2), 0)) == Marker(1, 2, True, 3, 0)


def _control(key: bytes, value: bytes, attributes: int = TRANSACTIONAL | CONTROL) -> bytes:
    batch = bytearray(encode_batch([(key, value)], 0, attributes=attributes))
    batch[43:51] = (9).to_bytes(8, "big")
    return bytes(batch)


def test_a_later_version_is_read_like_version_0_and_other_kinds_are_skipped() -> None:
    later = _control(struct.pack(">hhi", 4, 1, 7), struct.pack(">hiq", 6, 21, 5))
    assert parse_marker(later) == Marker(9, -1, True, 21)
    assert parse_marker(_control(struct.pack(">hh", 0, 5), b"")) is None
    assert parse_marker(encode_batch([(None, b"v")], 0)) is None


def test_a_control_batch_without_records_is_no_marker() -> None:
    batch = bytearray(encode_marker(Marker(1, 2, True, 3), 0))
    batch[57:61] = bytes(4)
    assert parse_marker(batch) is None


@pytest.mark.parametrize(
    "batch",
    [
        _control(b"\0", b""),
        _control(struct.pack(">hh", 0, 1), b"\0\0"),
        _control(struct.pack(">hh", 0, 1), b"", TRANSACTIONAL | CONTROL | 1),
        encode_marker(Marker(1, 2, True, 3), 0)[:70],
    ],
)
def test_a_marker_that_is_cut_short_is_an_error(batch: bytes) -> None:
    with pytest.raises(FormatError):
        parse_marker(batch)
