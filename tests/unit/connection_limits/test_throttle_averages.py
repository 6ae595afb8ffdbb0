"""Throttle averages and the share of time blocked."""

from math import isnan

import pytest

from connection_limits.throttle_averages import BlockedTime, ThrottleAverage

NOW = 1_000_000


def test_the_throttle_average_covers_one_to_two_half_minutes() -> None:
    average = ThrottleAverage(NOW)
    assert isnan(average.measure(NOW))
    average.record(100, NOW)
    average.record(300, NOW + 29_999)
    assert average.measure(NOW + 29_999) == 200
    average.record(500, NOW + 31_000)
    assert average.measure(NOW + 31_000) == 300
    assert average.measure(NOW + 62_000) == 500
    assert isnan(average.measure(NOW + 200_000))


def test_blocked_time_is_a_fraction_of_the_last_ten_seconds_and_a_total() -> None:
    blocked = BlockedTime(NOW)
    assert blocked.fraction(NOW) == 0
    blocked.begin(NOW + 1_000)
    blocked.end(NOW + 3_000)
    assert blocked.fraction(NOW + 4_000) == pytest.approx(0.5)
    assert blocked.fraction(NOW + 9_999) == pytest.approx(0.2, abs=0.001)
    assert blocked.fraction(NOW + 30_000) == 0
    assert blocked.total_s(NOW + 30_000) == 2


def test_a_wait_that_is_going_on_counts_already() -> None:
    blocked = BlockedTime(NOW)
    blocked.begin(NOW + 5_000)
    assert blocked.total_s(NOW + 7_500) == 2.5
    assert blocked.fraction(NOW + 10_000) == pytest.approx(0.5)
    blocked.end(NOW + 25_000)
    assert blocked.total_s(NOW + 25_000) == 20
    assert blocked.fraction(NOW + 25_000) == 1
    blocked.begin(NOW + 25_000)
    assert blocked.fraction(NOW + 25_900) == 1


def test_the_end_of_a_wait_that_never_began_counts_nothing() -> None:
    blocked = BlockedTime(NOW)
    blocked.end(NOW + 5_000)
    assert blocked.total_s(NOW + 5_000) == 0
