"""Which times are shown and compared."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from audit_pipeline.report.window import DAY_US, HOUR_US, MINUTE_US, POINTS_MAX, Span, windows

NOON_US = round(datetime(2026, 11, 22, 12, 34, 56, tzinfo=UTC).timestamp() * 1e6)
MIDNIGHT_US = NOON_US - NOON_US % DAY_US


def test_whole_days_are_shown_and_compared_with_as_many_before() -> None:
    found = windows(NOON_US - 30 * DAY_US, NOON_US, 7)
    assert found.shown == Span(MIDNIGHT_US - 6 * DAY_US, NOON_US + 1)
    end_us = NOON_US - NOON_US % (10 * MINUTE_US)
    assert found.last == Span(MIDNIGHT_US - 6 * DAY_US, end_us)
    assert found.before == Span(MIDNIGHT_US - 13 * DAY_US, end_us - 7 * DAY_US)
    assert (found.grain_us, found.step_us) == (10 * MINUTE_US, HOUR_US)


def test_of_a_log_of_a_week_the_last_days_are_compared_that_have_as_many_before() -> None:
    found = windows(MIDNIGHT_US - 6 * DAY_US, NOON_US, 7)
    assert found.last is not None
    assert (found.last.first_day.isoformat(), found.last.last_day.isoformat()) == ("2026-11-20", "2026-11-22")


def test_a_log_that_began_a_little_after_midnight_has_that_day() -> None:
    found = windows(MIDNIGHT_US - DAY_US + 5 * MINUTE_US, NOON_US, 7)
    assert found.last is not None
    assert found.last.from_us == MIDNIGHT_US


def test_of_a_log_of_hours_hours_are_compared() -> None:
    found = windows(NOON_US - 7 * HOUR_US, NOON_US, 7)
    assert found.last is not None
    assert found.last.length_us == 3 * HOUR_US


def test_a_log_of_minutes_is_told_by_the_minute_and_may_be_too_short_to_compare() -> None:
    found = windows(NOON_US - 100_000_000, NOON_US, 7)
    assert (found.grain_us, found.step_us, found.last, found.before) == (MINUTE_US, MINUTE_US, None, None)


@given(st.integers(0, 4000 * DAY_US), st.integers(0, 800 * DAY_US), st.integers(1, 366))
def test_there_are_never_too_many_points_and_compared_stretches_are_alike(
    first_us: int, more_us: int, days: int
) -> None:
    found = windows(first_us, first_us + more_us, days)
    assert found.shown.length_us / found.step_us <= POINTS_MAX
    assert found.step_us % found.grain_us == 0
    assert first_us <= found.shown.from_us < found.shown.to_us == first_us + more_us + 1
    assert len(list(found.shown.days())) <= days
    if found.last is not None and found.before is not None:
        assert found.last.length_us == found.before.length_us
        assert found.before.to_us <= found.last.from_us
        assert found.last.to_us <= found.shown.to_us
