"""Partitions as texts: the broker to read from, and the partition."""

import pytest

from kafka_bytes.push.partition_text import NO_LEADER, partition_text, read_partition


@pytest.mark.parametrize(
    ("leader", "partition", "text"), [(1, 0, "1-0"), (-1, 7, "7"), (2**31 - 1, 2**31 - 1, "2147483647-2147483647")]
)
def test_a_partition_is_written_with_its_leader_and_read_back(leader: int, partition: int, text: str) -> None:
    assert partition_text(leader, partition) == text
    assert read_partition(text) == (max(leader, NO_LEADER), partition)
