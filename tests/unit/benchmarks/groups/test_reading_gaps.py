"""Gaps in the records that members have read."""

import math

from benchmarks.groups.reading_gaps import Read, first_read_s, pauses, percentile, read_twice, shared

READS = [
    *(Read("a", 0, offset, 10.0 + offset * 0.01) for offset in range(5)),
    Read("b", 0, 3, 10.5),
    Read("b", 0, 4, 10.5),
    Read("b", 0, 5, 10.6),
    *(Read("a", 1, offset, 10.0 + offset) for offset in range(3)),
]


def test_a_partition_is_handed_over_when_another_reads_what_is_new() -> None:
    found = pauses(READS, 10.0, 20.0)
    assert found[0].moved
    assert math.isclose(found[0].seconds, 10.6 - 10.04)
    assert not found[1].moved
    assert math.isclose(found[1].seconds, 1.0)


def test_a_hand_over_counts_though_the_partition_stood_longer_without_one() -> None:
    reads = [Read("a", 0, 0, 1.0), Read("a", 0, 1, 9.0), Read("b", 0, 2, 9.5)]
    assert math.isclose(pauses(reads, 0.0, 20.0)[0].seconds, 0.5)


def test_pauses_that_end_at_another_time_do_not_count() -> None:
    assert pauses(READS, 10.7, 11.5).keys() == {1}
    assert pauses(READS, 13.0, 14.0) == {}


def test_records_read_earlier_by_another_member_count_as_read_twice() -> None:
    assert read_twice(READS) == 2
    assert first_read_s(READS, "b") == 10.5


def test_partitions_are_shared_when_each_has_one_reader_and_each_member_as_many() -> None:
    reads = [Read(member, partition, 0, 1.0) for partition, member in enumerate("aabb")]
    assert shared(reads, "ab", 4)
    assert not shared(reads, "ab", 5), "nobody reads the last one"
    assert not shared(reads, "abc", 4), "one has nothing"
    assert not shared(reads, "a", 4), "one is to have gone"
    assert not shared([*reads, Read("b", 0, 1, 1.0)], "ab", 4), "two read the first"
    assert not shared([Read(member, partition, 0, 1.0) for partition, member in enumerate("aaab")], "ab", 4)


def test_percentiles() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([float(each) for each in range(200)], 0.99) == 198.0
    assert math.isnan(percentile([], 0.5))
