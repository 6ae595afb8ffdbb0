"""Schedules: the last time and the next time."""

import re
from datetime import UTC, datetime

import pytest

from sluicegate_operator.api.models.audit_pipeline import SCHEDULE_PATTERN
from sluicegate_operator.planning.pipelines.schedule import ScheduleError, parse_schedule


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "now", "last", "following"),
    [
        ("@hourly", "2026-11-22 11:59", "2026-11-22 11:00", "2026-11-22 12:00"),
        ("@hourly", "2026-11-22 12:00", "2026-11-22 12:00", "2026-11-22 13:00"),
        ("15 */2 * * *", "2026-11-22 00:10", "2026-11-21 22:15", "2026-11-22 00:15"),
        ("0,30 9-10 * * mon-fri", "2026-11-22 12:00", "2026-11-20 10:30", "2026-11-23 09:00"),
        ("5/20 * * * *", "2026-11-22 12:26", "2026-11-22 12:25", "2026-11-22 12:45"),
        ("@weekly", "2026-11-25 12:00", "2026-11-22 00:00", "2026-11-29 00:00"),
        ("@yearly", "2026-11-25 12:00", "2026-01-01 00:00", "2027-01-01 00:00"),
        ("0 0 29 feb *", "2097-01-01 00:00", "2096-02-29 00:00", "2104-02-29 00:00"),
        # Both days are restricted, so either is enough.
        ("0 0 13 * FRI", "2026-11-22 00:00", "2026-11-20 00:00", "2026-11-27 00:00"),
        ("0 0 13 * *", "2026-11-22 00:00", "2026-11-13 00:00", "2026-12-13 00:00"),
        ("0 0 */2 * sun", "2026-11-24 00:00", "2026-11-23 00:00", "2026-11-25 00:00"),
        ("0 0 */1 * sun", "2026-11-24 00:00", "2026-11-22 00:00", "2026-11-29 00:00"),
    ],
)
def test_the_last_and_the_next_time(schedule: str, now: str, last: str, following: str) -> None:
    parsed = parse_schedule(schedule)
    assert parsed.last(at("2020-01-01 00:00"), at(now)) == at(last)
    assert parsed.last(at(last), at(now)) is None
    assert parsed.next(at(now)) == at(following)


@pytest.mark.parametrize("schedule", ["0 0 * * \u017fun", "0 0 * * fr\u0131", "0 0 * \u017fep *", "\u0660 0 * * *"])
def test_letters_and_digits_of_other_scripts_are_refused_when_they_are_applied(schedule: str) -> None:
    assert re.fullmatch(SCHEDULE_PATTERN, schedule) is None


def test_a_day_that_no_month_has_never_comes() -> None:
    assert parse_schedule("0 0 30 2 *").next(at("2026-01-01 00:00")) is None
    assert parse_schedule("0 0 30 2 *").last(at("2020-01-01 00:00"), at("2026-01-01 00:00")) is None


def test_a_range_that_goes_backwards_is_named() -> None:
    with pytest.raises(ScheduleError, match="range fri-mon of the schedule ends before it begins"):
        parse_schedule("0 0 * * fri-mon")
