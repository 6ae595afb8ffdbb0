"""Java's hash code of a group's id, by which clients and brokers find its partition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.coordination.partition_of import partition_of


@pytest.mark.parametrize(
    ("group_id", "magnitude"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("orders", 1_008_770_331),
        # The smallest number of 32 bits, which has no positive counterpart.
        ("polygenelubricants", 0),
        # A character beyond 16 bits is two of Java's.
        ("\U0001f600", 1_772_899),
        ("größe", 98_762_257),
    ],
)
def test_as_java_has_it(group_id: str, magnitude: int) -> None:
    assert partition_of(group_id, 2**31 - 1) == magnitude
    assert partition_of(group_id, 50) == magnitude % 50


@given(st.text(st.characters(codec="utf-8")), st.integers(1, 100))
def test_there_is_such_a_partition(group_id: str, partitions: int) -> None:
    assert 0 <= partition_of(group_id, partitions) < partitions
