"""Partitions as texts: the broker to read from, and the partition."""

import pytest

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.push.partition_text import partition_number, partition_text


@pytest.mark.parametrize(
    ("leader", "partition", "text"), [(1, 0, "1-0"), (-1, 7, "7"), (2**31 - 1, 2**31 - 1, "2147483647-2147483647")]
)
def test_a_partition_is_written_with_its_leader_and_read_without(leader: int, partition: int, text: str) -> None:
    assert partition_text(leader, partition) == text
    assert partition_number(text) == partition


@pytest.mark.parametrize(
    "text", ["", "-", "1-", "-1", "-1-0", "1-2-3", "a", "1-a", " 1", "1\n", "٣", "2147483648", "1" * 21]
)
def test_what_names_no_partition_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        partition_number(text)
