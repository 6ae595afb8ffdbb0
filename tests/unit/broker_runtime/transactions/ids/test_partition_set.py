"""A set of partitions is like a set of pairs, and no step of work on a very large one takes long."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_runtime.slicing.steps import at_once
from broker_runtime.transactions.ids.partition_set import (
    INDEX_MAX,
    NO_PARTITIONS,
    PartitionSet,
    partition_set,
    union,
)
from tests.support.requests.step_sizes import objects_of_a_step

_places = st.frozensets(st.tuples(st.sampled_from("abc"), st.integers(0, 300) | st.just(INDEX_MAX)), max_size=20)
_Place = tuple[str, int]


@settings(max_examples=30)
@given(_places, _places)
def test_it_is_like_a_set_of_pairs(one: frozenset[_Place], other: frozenset[_Place]) -> None:
    made, second = PartitionSet.of(*one), PartitionSet.of(*other)
    assert (frozenset(made), len(made), bool(made)) == (one, len(one), bool(one))
    assert all(place in made for place in one)
    assert not any(place in made for place in other - one)
    joined = at_once(union(made, second))
    assert (frozenset(joined), len(joined)) == (one | other, len(one | other))
    assert (joined is made) == (other <= one)
    assert (made == second) == (one == other)
    assert one != other or hash(made) == hash(second)


def test_what_is_no_partition_of_it() -> None:
    made = PartitionSet.of(("a", 0))
    for other in (("a", 1), ("b", 0), ("a", -1), "a"):
        assert other not in made
    assert made != {("a", 0)}
    assert repr(made) == "PartitionSet.of(('a', 0))"
    assert repr(PartitionSet.of(*(("a", index) for index in range(99)))).endswith("('a', 19), ...)")


@pytest.mark.parametrize("index", [-1, INDEX_MAX + 1])
def test_an_impossible_number_is_refused(index: int) -> None:
    with pytest.raises(ValueError, match=str(index)):
        at_once(partition_set([("a", 0), ("a", index)]))


COUNT = 20_000
LARGE = {
    "one topic": [("topic", index) for index in range(COUNT)],
    "many topics": [(f"topic-{number}", 0) for number in range(COUNT)],
}


@pytest.mark.full
@pytest.mark.parametrize("places", LARGE.values(), ids=LARGE)
def test_no_step_of_work_on_a_large_set_takes_long(places: list[_Place]) -> None:
    assert objects_of_a_step(partition_set(places)) < COUNT / 4
    made = PartitionSet.of(*places)
    assert objects_of_a_step(union(NO_PARTITIONS, made)) < COUNT / 4
    assert objects_of_a_step(union(made, PartitionSet.of(("other", 0)))) < COUNT / 4
