"""Adaptive rates in virtual time keep the objective under steps, ramps, pulses and noise, and do not oscillate."""

from functools import partial

import pytest

from connection_limits.adaptive.control import Move
from connection_limits.settings import Objective
from tests.support.limits.busy_loop import BusyLoop

MIN, MAX, OBJECTIVE_MS = 50, 10_000, 20
STORM = 8_000
_ADAPTIVE = Objective(OBJECTIVE_MS, MIN)


def constant(value: float, now_ms: int) -> float:
    del now_ms
    return value


def storm_from_10_s(now_ms: int) -> float:
    return STORM if now_ms >= 10_000 else 20


def adaptive(cost_ms: float, seed: int = 0) -> BusyLoop:
    return BusyLoop(cost_ms, MAX, _ADAPTIVE, seed)


def best_fixed_rate(cost_ms: float, own_load: float) -> float:
    """Return the connections a second that the highest fixed rate which keeps the objective admits."""
    highest = (1 - own_load) / cost_ms * 1000
    best = 0.0
    for share in (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0):
        fixed = BusyLoop(cost_ms, int(highest * share))
        fixed.run(20_000, partial(constant, STORM), partial(constant, own_load))
        if fixed.p99_ms(5_000, 20_000) <= OBJECTIVE_MS:
            best = max(best, fixed.created_per_s(5_000, 20_000))
    assert best
    return best


@pytest.mark.parametrize(
    ("cost_ms", "own_load"),
    [
        pytest.param(0.1, 0.3, marks=pytest.mark.full),
        pytest.param(0.25, 0.1, marks=pytest.mark.full),
        (0.25, 0.6),
        (1.0, 0.3),
        (4.0, 0.1),
    ],
)
def test_a_storm_is_cut_to_nearly_the_best_fixed_rate(cost_ms: float, own_load: float) -> None:
    loop = adaptive(cost_ms)
    loop.run(100_000, storm_from_10_s, partial(constant, own_load))
    # Ten seconds are allowed for finding the rate.
    assert loop.p99_ms(20_000, 100_000) <= OBJECTIVE_MS
    assert loop.created_per_s(30_000, 100_000) >= 0.75 * best_fixed_rate(cost_ms, own_load)


def test_a_storm_is_cut_within_three_seconds() -> None:
    loop = adaptive(1.0)
    loop.run(20_000, storm_from_10_s, partial(constant, 0.3))
    assert loop.p99_ms(10_000, 12_000) > OBJECTIVE_MS
    assert max(loop.limits(13_000, 20_000)) < 700
    assert loop.p99_ms(14_000, 20_000) <= OBJECTIVE_MS


@pytest.mark.parametrize("seed", range(3))
def test_nothing_oscillates(seed: int) -> None:
    loop = adaptive(0.5, seed)
    loop.run(120_000, partial(constant, STORM), partial(constant, 0.3))
    limits = sorted(loop.limits(40_000, 120_000))
    # Nearly all of the time, the rate is within a band of a factor of two.
    assert limits[-len(limits) // 20] < 2.2 * limits[len(limits) // 20]


def test_own_load_of_established_clients_is_not_taken_for_a_storm() -> None:
    loop = adaptive(0.25)
    loop.run(60_000, partial(constant, 200), partial(constant, 0.99))
    assert loop.p99_ms(10_000, 60_000) > OBJECTIVE_MS
    assert set(loop.limits(0, 60_000)) == {MAX}
    assert Move.OTHER_LOAD in {second.why for second in loop.seconds}


def test_few_connections_are_never_limited() -> None:
    loop = adaptive(0.25)
    loop.run(60_000, partial(constant, MIN - 1), partial(constant, 0.99))
    assert set(loop.limits(0, 60_000)) == {MAX}


def test_a_ramp_is_followed() -> None:
    loop = adaptive(0.25)
    loop.run(120_000, lambda now_ms: now_ms / 15, partial(constant, 0.3))
    assert loop.p99_ms(0, 120_000) <= 2 * OBJECTIVE_MS
    # Below the capacity of 2,800 connections a second, which the ramp reaches after 42 s, nothing is cut.
    assert set(loop.limits(0, 30_000)) == {MAX}
    assert loop.created_per_s(80_000, 120_000) > 1_800


def test_later_pulses_meet_the_rate_that_the_first_has_found() -> None:
    loop = adaptive(1.0)
    loop.run(100_000, lambda now_ms: STORM if now_ms % 20_000 < 5_000 else 10, partial(constant, 0.3))
    assert loop.p99_ms(0, 1_000) > 4 * OBJECTIVE_MS
    assert loop.p99_ms(60_000, 100_000) <= 2 * OBJECTIVE_MS
    # The loop can accept 700 connections a second.
    assert 300 < loop.created_per_s(81_000, 85_000) < 700


def test_a_rate_returns_to_its_maximum_after_a_storm() -> None:
    loop = adaptive(1.0)
    loop.run(400_000, lambda now_ms: STORM if now_ms < 10_000 else 10, partial(constant, 0.3))
    assert min(loop.limits(0, 10_000)) < 800
    assert loop.limits(399_000, 400_000) == [MAX]
    assert loop.seconds[-1].why is Move.QUIET


def test_the_minimum_is_kept_when_the_objective_cannot_be() -> None:
    loop = adaptive(7.5)
    loop.run(30_000, partial(constant, STORM), partial(constant, 0.6))
    assert loop.p99_ms(15_000, 30_000) > OBJECTIVE_MS
    assert min(loop.limits(15_000, 30_000)) == MIN
    assert max(loop.limits(15_000, 30_000)) < 1.2 * MIN
    assert Move.AT_MIN in {second.why for second in loop.seconds}
