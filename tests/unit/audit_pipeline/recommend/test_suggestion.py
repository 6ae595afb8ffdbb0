from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit_pipeline.recommend.demand import Demand, demand, largest_burst, percentiles
from audit_pipeline.recommend.suggestion import LimitTarget, SeenStorms, Suggestion, suggested

EXTERNAL = LimitTarget("c1", "listener", "EXTERNAL")
QUIET = Demand(100, 0, 0, 1, 2, 30, 1_700_000_000, 10)
COUNTS = st.lists(st.integers(1, 9), max_size=40)


def numbers(values: Any) -> Any:
    return np.array(list(values), np.int64)


@given(COUNTS, st.integers(0, 60))
def test_percentiles_are_those_of_all_seconds(counts: list[int], quiet: int) -> None:
    every = sorted([0] * quiet + counts)
    expected = tuple(every[-(-len(every) * permille // 1000) - 1] if every else 0 for permille in (500, 990, 999))
    assert percentiles(numbers(counts), len(every)) == expected


@given(st.dictionaries(st.integers(0, 60), st.integers(0, 9), max_size=40))
def test_the_largest_burst_is_that_of_ten_seconds_in_a_row(series: dict[int, int]) -> None:
    seconds = sorted(series)
    burst, burst_s = largest_burst(numbers(seconds), numbers(series[second] for second in seconds))
    sums = {first: sum(count for at, count in series.items() if first <= at < first + 10) for first in seconds}
    assert burst == max(sums.values(), default=0)
    if burst:
        assert burst_s == min(first for first, count in sums.items() if count == burst and series[first])


def test_a_demand_has_the_usual_connections_and_those_of_storms() -> None:
    seconds, attempts, usual = numbers([10, 11, 500]), numbers([4, 2, 900]), numbers([4, 2, 0])
    assert demand(seconds, attempts, usual, covered_s=600, wait_s=2) == Demand(906, 900, 0, 0, 900, 6, 10, 2)


def test_a_limit_is_for_the_broker_that_needs_most() -> None:
    other = QUIET._replace(connections=7, needed=4, burst=30, burst_s=1_600_000_000, rate_p99=5)
    found = suggested(EXTERNAL, [(2, QUIET), (1, other)], SeenStorms())
    assert (found.rate, found.brokers) == (10, 2)
    assert found.demand == Demand(107, 0, 0, 5, 2, 30, 1_600_000_000, 10)


@pytest.mark.parametrize(
    ("storms", "holds", "sentence"),
    [
        (SeenStorms(), True, "There was no storm."),
        (SeenStorms(1, 111, 111), True, "The storm brought 111 in 10 s, of which the limit admits at most 110."),
        (SeenStorms(2, 900, 110), False, "The smallest of 2 storms brought 110 in 10 s"),
    ],
)
def test_a_storm_is_held_if_it_brings_more_than_the_limit_admits(
    storms: SeenStorms, holds: bool, sentence: str
) -> None:
    found = Suggestion(EXTERNAL, 1, QUIET, storms)
    assert found.is_holding is holds
    assert sentence in found.why
    assert "10/s is the smallest rate that delays no usual connection by more than 2 s." in found.why


def test_a_target_with_nothing_but_storms_gets_the_smallest_rate() -> None:
    nothing = Demand(900, 900, 0, 0, 9, 0, 0, 0)
    found = Suggestion(LimitTarget("c1", "ip", "10.0.0.9"), 1, nothing, SeenStorms(1, 900, 900))
    assert found.rate == 1
    assert found.why.startswith("All its connections are of storms")


def test_a_target_that_nobody_has_seen_is_an_error() -> None:
    with pytest.raises(ValueError, match="no broker has seen"):
        suggested(EXTERNAL, [], SeenStorms())
