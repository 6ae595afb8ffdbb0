"""Varints and varlongs read back as they were written, and reading stops at their limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_bytes.errors import FormatError
from kafka_bytes.varints import append_varlong, read_uvarint, read_varlong, write_uvarint


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_varints_round_trip(value: int) -> None:
    raw = write_uvarint(value)
    assert read_uvarint(memoryview(b"x" + raw + b"y"), 1) == (value, 1 + len(raw))
    with pytest.raises(IndexError):
        read_uvarint(raw[:-1], 0)


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_varlongs_round_trip(value: int) -> None:
    raw = bytearray()
    append_varlong(raw, value)
    assert read_varlong(memoryview(b"x" + raw + b"y"), 1) == (value, 1 + len(raw))
    with pytest.raises(IndexError):
        read_varlong(bytes(raw[:-1]), 0)


def test_endless_numbers_are_refused() -> None:
    with pytest.raises(FormatError, match="longer than five"):
        read_uvarint(b"\xff" * 20, 0)
    with pytest.raises(IndexError, match="more than ten"):
        read_varlong(b"\xff" * 20, 0)
