"""The needed rate is the smallest one, grows with the arrivals, and the broker's own limiter keeps what it promises."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit_pipeline.recommend.needed_rate import Numbers, needed_rate
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import QuotaSettings, Strategy

Series = dict[int, int]
SERIES = st.dictionaries(st.integers(0, 400), st.integers(0, 60), max_size=30)
WAITS = st.sampled_from([0, 2])


def arrays(series: Series) -> tuple[Numbers, Numbers]:
    seconds = sorted(series)
    return np.array(seconds, np.int64), np.array([series[second] for second in seconds], np.int64)


def fits(series: Series, rate: int, wait_s: int) -> bool:
    """The definition in schemas/audit_result.v1.json, pair by pair."""
    return all(
        sum(count for second, count in series.items() if first <= second <= last)
        <= rate * (max(0, last - first - 1) + 1 + wait_s)
        for first in series
        for last in series
        if first <= last
    )


@given(SERIES, WAITS)
def test_it_is_the_smallest_rate_that_fits(series: Series, wait_s: int) -> None:
    found = needed_rate(*arrays(series), wait_s)
    assert fits(series, found, wait_s)
    assert found == 0 or not fits(series, found - 1, wait_s)


@given(SERIES, WAITS, st.integers(0, 400), st.integers(1, 60))
def test_more_arrivals_never_lower_it(series: Series, wait_s: int, second: int, more: int) -> None:
    grown = {**series, second: series.get(second, 0) + more}
    assert needed_rate(*arrays(series), wait_s) <= needed_rate(*arrays(grown), wait_s)


@given(SERIES)
def test_a_limit_that_may_delay_needs_no_more_than_one_that_rejects(series: Series) -> None:
    assert needed_rate(*arrays(series), 2) <= needed_rate(*arrays(series), 0)


@pytest.mark.parametrize(
    ("series", "delaying", "rejecting"),
    [
        ({}, 0, 0),
        ({5: 0}, 0, 0),
        ({5: 1}, 1, 1),
        ({5: 30}, 10, 30),
        ({5: 15, 6: 15}, 10, 30),
        ({5: 30, 500: 9}, 10, 30),
    ],
)
def test_bursts_by_hand(series: Series, delaying: int, rejecting: int) -> None:
    assert needed_rate(*arrays(series), 2) == delaying
    assert needed_rate(*arrays(series), 0) == rejecting


@settings(max_examples=60)
@given(st.data(), SERIES)
def test_the_limiter_delays_nobody_by_more_than_two_seconds_under_the_needed_rate(data: Any, series: Series) -> None:
    rate = needed_rate(*arrays(series), 2)
    quotas = ConnectionQuotas(
        QuotaSettings(strategy=Strategy.TOKEN_BUCKET, listener_max_connection_creation_rate={"EXTERNAL": max(1, rate)}),
        -10_000,
        lambda _: None,
    )
    quotas.add_listener("EXTERNAL", -10_000)
    now_ms = -10_000
    for arrived_ms in arrivals(data, series):
        now_ms = max(now_ms, arrived_ms)
        decision = quotas.on_accepted("EXTERNAL", "10.0.0.1", now_ms)
        while decision.outcome.name != "ADMIT":
            assert decision.outcome.name == "WAIT_UNTIL"
            now_ms = decision.at_ms
            decision = quotas.on_wait_over("EXTERNAL", "10.0.0.1", now_ms)
        # Waits are of whole milliseconds.
        assert now_ms - arrived_ms <= 2_001


def arrivals(data: Any, series: Series) -> list[int]:
    """Times in milliseconds, at any places of the seconds."""
    return sorted(
        second * 1000 + data.draw(st.sampled_from([0, 1, 500, 999]))
        for second, count in series.items()
        for _ in range(count)
    )


@given(SERIES)
def test_a_limit_that_rejects_needs_what_comes_in_two_seconds_in_a_row(series: Series) -> None:
    """What results.arrivals.target_seconds computes in SQL for all addresses."""
    in_two = [count + series.get(second + 1, 0) for second, count in series.items()]
    assert needed_rate(*arrays(series), 0) == max(in_two, default=0)
