"""The control law of one adaptive rate, decision by decision."""

from connection_limits.adaptive.control import INTERVAL_MS, AdaptiveRate, Bounds, Interval, Move
from connection_limits.adaptive.delays import SAMPLES_MIN

OBJECTIVE_MS = 20
LATE_MS, PROMPT_MS = 25.0, 1.0
ALL_MS = float(INTERVAL_MS)
"""Time that newcomers use if they use all of it."""


def rate_of(min_rate: int = 50, max_rate: int = 2000) -> AdaptiveRate:
    return AdaptiveRate(Bounds(min_rate, max_rate, OBJECTIVE_MS), 0)


def decide(
    rate: AdaptiveRate, number: int, *, delay_ms: float, created: int = 500, newcomers_ms: float = ALL_MS
) -> int:
    for _ in range(SAMPLES_MIN):
        rate.delays.add(min(delay_ms, 3.0))
    rate.delays.add(delay_ms)
    for _ in range(4):
        rate.delays.add(delay_ms)
    return rate.decide(Interval(created, INTERVAL_MS, newcomers_ms, throttled=True), number * INTERVAL_MS)


def test_only_decisions_that_lower_the_rate_are_cuts() -> None:
    rate = rate_of(min_rate=900)
    for number in range(1, 6):
        decide(rate, number, delay_ms=LATE_MS * 10)
    assert (rate.rate, rate.why, rate.cuts_total) == (900, Move.AT_MIN, 2)


def test_a_pause_that_newcomers_did_not_cause_is_not_held_against_later_ones() -> None:
    rate = rate_of()
    decide(rate, 1, delay_ms=3_000, newcomers_ms=0)
    assert (rate.rate, rate.why) == (2000, Move.OTHER_LOAD)
    for _ in range(SAMPLES_MIN):
        rate.delays.add(PROMPT_MS)
    rate.decide(Interval(500, INTERVAL_MS, ALL_MS, throttled=True), 2 * INTERVAL_MS)
    assert (rate.rate, rate.why) == (2000, Move.STEADY)


def test_a_cut_at_most_halves_a_rate_that_delays_connections() -> None:
    rate = rate_of()
    # The event loop was busy with handshakes of connections that it had accepted earlier.
    assert decide(rate, 1, delay_ms=500, created=0) == 1000
