"""Which times are shown and compared."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit_pipeline.errors import BadUseError
from audit_pipeline.report.window import DAY_US, HOUR_US, MINUTE_US, POINTS_MAX, Span, Wanted, windows

NOON_US = round(datetime(2026, 11, 22, 12, 34, 56, tzinfo=UTC).timestamp() * 1e6)
MIDNIGHT_US = NOON_US - NOON_US % DAY_US


def test_whole_days_are_shown_and_compared_with_as_many_before() -> None:
    found = windows(NOON_US - 30 * DAY_US, NOON_US, Wanted(7))
    assert found.shown == Span(MIDNIGHT_US - 6 * DAY_US, NOON_US + 1)
    end_us = NOON_US - NOON_US % (10 * MINUTE_US)
    assert found.last == Span(MIDNIGHT_US - 6 * DAY_US, end_us)
    assert found.before == Span(MIDNIGHT_US - 13 * DAY_US, end_us - 7 * DAY_US)
    assert (found.grain_us, found.step_us) == (10 * MINUTE_US, HOUR_US)


def test_of_a_log_of_a_week_the_last_days_are_compared_that_have_as_many_before() -> None:
    found = windows(MIDNIGHT_US - 6 * DAY_US, NOON_US, Wanted(7))
    assert found.last is not None
    assert (found.last.first_day.isoformat(), found.last.last_day.isoformat()) == ("2026-11-20", "2026-11-22")


def test_a_log_that_began_a_little_after_midnight_has_that_day() -> None:
    found = windows(MIDNIGHT_US - DAY_US + 5 * MINUTE_US, NOON_US, Wanted(7))
    assert found.last is not None
    assert found.last.from_us == MIDNIGHT_US


def test_of_a_log_of_hours_hours_are_compared() -> None:
    found = windows(NOON_US - 7 * HOUR_US, NOON_US, Wanted(7))
    assert found.last is not None
    assert found.last.length_us == 3 * HOUR_US


def test_a_log_of_minutes_is_told_by_the_minute_and_may_be_too_short_to_compare() -> None:
    found = windows(NOON_US - 100_000_000, NOON_US, Wanted(7))
    assert (found.grain_us, found.step_us, found.last, found.before) == (MINUTE_US, MINUTE_US, None, None)


@given(st.integers(0, 4000 * DAY_US), st.integers(0, 800 * DAY_US), st.integers(1, 366))
def test_there_are_never_too_many_points_and_compared_stretches_are_alike(
    first_us: int, more_us: int, days: int
) -> None:
    found = windows(first_us, first_us + more_us, Wanted(days))
    assert found.shown.length_us / found.step_us <= POINTS_MAX
    assert found.step_us % found.grain_us == 0
    assert first_us <= found.shown.from_us < found.shown.to_us == first_us + more_us + 1
    assert len(list(found.shown.days())) <= days
    if found.last is not None and found.before is not None:
        assert found.last.length_us == found.before.length_us
        assert found.before.to_us <= found.last.from_us
        assert found.last.to_us <= found.shown.to_us


def test_a_time_that_was_asked_for_is_shown_and_compared_with_the_same_length_before() -> None:
    begin_us = MIDNIGHT_US + 9 * HOUR_US + 30 * MINUTE_US
    found = windows(NOON_US - 7 * DAY_US, NOON_US, Wanted(from_us=begin_us, to_us=begin_us + HOUR_US))
    assert found.shown == found.last == Span(begin_us, begin_us + HOUR_US)
    assert found.before == Span(begin_us - HOUR_US, begin_us)
    assert found.grain_us == MINUTE_US


def test_a_time_that_began_before_the_log_is_shown_from_the_first_event_and_not_compared() -> None:
    found = windows(NOON_US - HOUR_US, NOON_US, Wanted(from_us=NOON_US - DAY_US))
    assert (found.shown.from_us, found.last, found.before) == (NOON_US - HOUR_US, None, None)


def test_days_are_counted_back_from_the_end_that_was_asked_for() -> None:
    found = windows(NOON_US - 30 * DAY_US, NOON_US, Wanted(2, to_us=MIDNIGHT_US - 3 * DAY_US))
    assert found.shown == Span(MIDNIGHT_US - 5 * DAY_US, MIDNIGHT_US - 3 * DAY_US)


@pytest.mark.parametrize("wanted", [Wanted(from_us=NOON_US + 1), Wanted(to_us=NOON_US - DAY_US)])
def test_the_error_for_a_time_without_events_names_the_time_that_has_some(wanted: Wanted) -> None:
    with pytest.raises(BadUseError, match="have events from 2026-11-22T11:34 to 2026-11-22T12:34 UTC: give a --from"):
        windows(NOON_US - HOUR_US, NOON_US, wanted)


def test_a_cluster_is_whole_or_a_beginning() -> None:
    assert [Wanted(cluster=name).has_cluster("shop-1") for name in (None, "shop-1", "shop*", "shop", "stock*")] == [
        *(True, True, True),
        *(False, False),
    ]
