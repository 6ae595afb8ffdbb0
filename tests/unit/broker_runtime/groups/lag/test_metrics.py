"""The lags of groups, within the limits of what may be shown."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.groups.lag.metrics import Sampled, lag_by_topic, sample
from broker_runtime.groups.records import OffsetCommitKey, OffsetCommitValue
from broker_runtime.groups.state import CommittedOffsets
from broker_runtime.slicing.steps import pages


def committed(offsets: dict[str, dict[tuple[str, int], int]]) -> CommittedOffsets:
    found = CommittedOffsets()
    for group_id, of_group in offsets.items():
        for (topic, index), offset in of_group.items():
            found.apply(OffsetCommitKey(group_id, topic, index), OffsetCommitValue(offset, -1, "", 0))
    return found


def sampled(shards: Sequence[CommittedOffsets], groups_max: int = 100, partitions_max: int = 100) -> Sampled:
    *steps, last = sample(shards, groups_max, partitions_max)
    assert last is not None
    assert len(steps) == len(last.committed)
    return last


def test_lag_is_summed_by_group_and_topic() -> None:
    shards = [
        committed({"a": {("orders", 0): 4, ("orders", 1): 9, ("bills", 0): 1}, "b": {("orders", 0): 10}}),
        committed({"c": {("gone", 0): 5, ("orders", 1): 12}}),
    ]
    ends = {("orders", 0): 10, ("orders", 1): 10, ("bills", 0): 1}
    found = sampled(shards)
    shown = {group_id: lag_by_topic(offsets, ends) for group_id, offsets in found.committed.items()}
    assert shown == {"a": {"orders": 7, "bills": 0}, "b": {"orders": 0}, "c": {"orders": 0}}
    assert found.left_out == 0


def test_groups_beyond_the_maximum_are_counted_and_not_shown() -> None:
    shards = [committed({f"g{number}": {("orders", 0): 1} for number in range(5)})]
    found = sampled(shards, groups_max=3)
    assert (list(found.committed), found.left_out) == (["g0", "g1", "g2"], 2)


def test_a_group_of_too_many_partitions_is_left_out_whole_and_a_smaller_one_is_not() -> None:
    large = {("orders", index): 1 for index in range(8)}
    found = sampled([committed({"a": {("orders", 0): 1}, "large": large, "b": {("orders", 1): 1}})], partitions_max=8)
    assert (list(found.committed), found.left_out) == (["a", "b"], 1)


def test_a_group_deleted_during_the_sample_is_not_shown() -> None:
    shard = committed({"a": {("orders", 0): 1}, "b": {("orders", 0): 1}})
    steps = sample([shard], 100, 100)
    assert next(steps) is None
    shard.apply(OffsetCommitKey("b", "orders", 0), None)
    assert [step.committed for step in steps if step is not None] == [{"a": {("orders", 0): 1}}]


@given(
    st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), st.integers(0, 9)),
    st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), st.integers(0, 9)),
)
def test_lag_is_never_negative_and_of_known_ends_alone(
    offsets: dict[tuple[str, int], int], ends: dict[tuple[str, int], int]
) -> None:
    lag = lag_by_topic(offsets, ends)
    assert set(lag) == {topic for topic, index in offsets if (topic, index) in ends}
    assert all(records >= 0 for records in lag.values())
    assert sum(lag.values()) == sum(max(0, ends[p] - offset) for p, offset in offsets.items() if p in ends)


@given(st.lists(st.tuples(st.just("a"), st.integers(0, 9))), st.integers(1, 4))
def test_pages_are_all_of_it_in_order(partitions: list[tuple[str, int]], size: int) -> None:
    found = list(pages(partitions, size))
    assert [partition for page in found for partition in page] == partitions
    assert all(0 < len(page) <= size for page in found)
