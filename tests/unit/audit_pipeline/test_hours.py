from datetime import UTC, date, datetime

from audit_pipeline.hours import by_day, day_of_hour, hour_at, hours_named, hours_of_day, named, runs, shown, start_of

DAY, NEXT = date(2026, 11, 22), date(2026, 11, 23)
FIVE = hours_of_day(DAY)[5]


def test_an_hour_is_that_of_its_first_and_last_microsecond() -> None:
    began = datetime(2026, 11, 22, 5, tzinfo=UTC)
    us = int(began.timestamp()) * 1_000_000
    assert [hour_at(us - 1), hour_at(us), hour_at(us + 3_599_999_999)] == [FIVE - 1, FIVE, FIVE]
    assert (start_of(FIVE), day_of_hour(FIVE)) == (began, DAY)
    assert [day_of_hour(hour) for hour in (hours_of_day(DAY)[0] - 1, hours_of_day(DAY)[-1])] == [
        date(2026, 11, 21),
        DAY,
    ]


def test_consecutive_hours_are_one_run() -> None:
    assert list(runs([])) == []
    assert list(runs([8, 3, 4, 5, 4])) == [(3, 6), (8, 9)]


def test_hours_are_grouped_by_day_in_order() -> None:
    midnight = hours_of_day(NEXT)[0]
    assert by_day([midnight, FIVE]) == {DAY: [FIVE], NEXT: [midnight]}


def test_names_of_whole_days_and_of_hours_are_read_back() -> None:
    hours = {*hours_of_day(DAY), hours_of_day(NEXT)[0], hours_of_day(NEXT)[23]}
    assert named(hours) == ["2026-11-22", "2026-11-23T00", "2026-11-23T23"]
    assert hours_named(named(hours)) == hours


def test_users_see_the_span_of_hours() -> None:
    assert shown([FIVE]) == "2026-11-22 05:00 to 06:00"
    assert shown([FIVE, FIVE + 18]) == "2026-11-22 05:00 to 24:00"
    assert shown(hours_of_day(DAY)) == "2026-11-22"
    assert shown([FIVE, FIVE + 24]) == "2 days from 2026-11-22 to 2026-11-23"
