"""Work in steps gives the same results as without breaks, and frees the objects that it must free."""

import gc
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.slicing.steps import (
    Steps,
    at_once,
    chosen,
    counted,
    distinct,
    drain,
    each,
    flattened,
    gathered,
    in_order,
    let_go,
    listed,
)

NUMBERS = st.lists(st.integers(-50, 50), max_size=3_000)


def breaks_in(steps: Steps[Any]) -> int:
    return sum(1 for _ in steps)


@given(NUMBERS)
def test_the_results_are_those_of_plain_loops(numbers: list[int]) -> None:
    assert at_once(each(numbers, lambda number: number * 2)) == [number * 2 for number in numbers]
    assert at_once(chosen(numbers, lambda number: number % 3)) == [number for number in numbers if number % 3]
    assert at_once(listed(iter(numbers))) == numbers
    groups = [numbers[:3], [], numbers[3:]]
    assert at_once(flattened(((at, number) for number in group) for at, group in enumerate(groups))) == [
        (at, number) for at, group in enumerate(groups) for number in group
    ]
    assert at_once(counted(numbers)) == {number: numbers.count(number) for number in set(numbers)}
    assert at_once(distinct(numbers)) == list(dict.fromkeys(numbers))
    assert at_once(gathered(numbers)) == set(numbers)
    assert at_once(in_order(numbers)) == sorted(numbers)
    assert at_once(in_order(numbers, lambda number: -abs(number))) == sorted(numbers, key=lambda number: -abs(number))


def test_there_are_breaks_in_long_work() -> None:
    many = list(range(10_000))
    assert breaks_in(each(many, str)) >= 1_000
    assert breaks_in(in_order(many)) >= 90
    assert breaks_in(flattened([many])) >= 70
    assert breaks_in(flattened([] for _ in many)) >= 70, "groups without items"
    for steps in (chosen(many, bool), listed(many), counted(many), distinct(many), gathered(many)):
        assert breaks_in(steps) >= 70


@pytest.mark.parametrize("kind", [set, deque, dict.fromkeys])
def test_sets_deques_and_dictionaries_are_emptied_in_parts(kind: Callable[[range], Any]) -> None:
    items = kind(range(1_000))
    sizes = [len(items) for _ in drain(items)]
    assert len(sizes) >= 10
    assert sizes[-1] == len(items) == 0


class Item(dict[str, Any]):
    """An item that supports weak references."""


def items(count: int) -> Iterator[Item]:
    return (Item(name="x") for _ in range(count))


def test_a_long_list_is_freed_in_parts_with_the_lists_in_it() -> None:
    outer = [Item(parts=list(items(1_000))), *items(1_000)]
    alive = [weakref.ref(item) for item in (*outer, *outer[0]["parts"])]
    gc.disable()
    try:
        left = []
        for _ in let_go(outer):
            left.append(sum(reference() is not None for reference in alive))
        assert left[-1] == 0
        assert max(before - after for before, after in pairwise(left)) <= 8
    finally:
        gc.enable()
    assert outer == []
