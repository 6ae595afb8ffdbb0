"""Ranges have the numbers that were added, whatever their order, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from audit_pipeline.ranges import NumberRanges

RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)).map(lambda each: (each[0], sum(each))), max_size=8)


def test_ranges_cover_each_number_or_they_do_not() -> None:
    assert NumberRanges([(3, 4), (0, 2)]).has(0, 4)
    assert NumberRanges([(0, 9), (2, 3)]).has(1, 9)
    assert not NumberRanges([(0, 1), (3, 4)]).has(0, 4)
    assert not NumberRanges([]).has(0, 0)


def test_ranges_that_meet_are_one() -> None:
    assert list(NumberRanges([(5, 6), (1, 2), (3, 4), (9, 9)])) == [(1, 6), (9, 9)]


@given(RANGES, st.integers(0, 36), st.integers(0, 8))
def test_ranges_contain_exactly_the_added_numbers_in_any_order(
    ranges: list[tuple[int, int]], first: int, more: int
) -> None:
    added = NumberRanges()
    for each in ranges:
        added.add(*each)
    numbers = {number for low, high in ranges for number in range(low, high + 1)}
    assert {number for low, high in added for number in range(low, high + 1)} == numbers
    asked = range(first, first + more + 1)
    assert added.has(first, first + more) == numbers.issuperset(asked)
    assert added.touch(first, first + more) == (not numbers.isdisjoint(asked))
    assert list(added) == list(NumberRanges(ranges))
