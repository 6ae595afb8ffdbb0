"""The hours and days that a build computes: new ones, those with other settings, and none that would lose events."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

from audit_pipeline.hours import hours_of_day
from audit_pipeline.jobs.days import (
    AskedDays,
    beside,
    days_to_compute,
    days_to_try,
    hours_to_build,
    note_of,
    recommended_mark,
    results_mark,
    what_if_mark,
)
from audit_pipeline.results.settings import Prices, Settings, StormLimits
from audit_pipeline.sources.catalogue import Hole, SetAside

A, B, C = date(2026, 11, 18), date(2026, 11, 19), date(2026, 11, 20)
PLAIN = Settings()


def noted(day: date, settings: Settings = PLAIN, **more: object) -> dict[str, dict[str, object]]:
    told = note_of(None, day, 0, 0, settings)
    return {day.isoformat(): {**told, "settings": results_mark(settings), **more}}


def test_hours_with_new_events_are_built_if_their_day_is_requested() -> None:
    first, second, third = (hours_of_day(day)[5] for day in (A, B, C))
    assert hours_to_build({third, first}, set(), {}, AskedDays(), PLAIN) == [first, third]
    assert hours_to_build({first, second, third}, set(), {}, AskedDays(first=B, last=B), PLAIN) == [second]
    assert hours_to_build({first, second, third}, set(), {}, AskedDays(oldest=B), PLAIN) == [second, third]


def test_hours_whose_files_were_deleted_are_not_rebuilt() -> None:
    first, second, *_ = hours_of_day(A)
    assert hours_to_build({first, second}, {first}, noted(A), AskedDays(), PLAIN) == [second]


def test_other_limits_of_storms_need_the_events_of_all_days_again() -> None:
    others = replace(PLAIN, storms=StormLimits(connections=50))
    lost = set(hours_of_day(B))
    assert hours_to_build(set(), lost, {**noted(A), **noted(B)}, AskedDays(), others) == list(hours_of_day(A))
    assert hours_to_build(set(), set(), noted(A), AskedDays(), PLAIN) == []


def test_a_storm_at_the_edge_of_an_hour_concerns_the_hour_beside_it() -> None:
    assert beside([7, 8, 11]) == {6, 9, 10, 12}


def test_other_prices_need_results_again_and_no_events() -> None:
    others = replace(PLAIN, prices=Prices("EUR", {"ingress": 1.0}))
    assert hours_to_build(set(), set(), noted(A), AskedDays(), others) == []
    assert days_to_compute({**noted(A), **noted(B, others)}, others) == [A]


def test_a_day_that_was_built_now_has_no_results_yet() -> None:
    told = note_of(None, A, 7, 100, PLAIN)
    assert (told["built_us"], told["late"]) == (7, 0)
    assert days_to_compute({A.isoformat(): told}, PLAIN) == [A]


def test_events_that_arrive_after_their_day_was_completed_count_as_late() -> None:
    def at(hour: int, minute: int) -> int:
        return int(datetime(2026, 11, 19, hour, minute, tzinfo=UTC).timestamp()) * 1_000_000

    before = note_of(None, A, at(0, 14), 10, PLAIN)
    over = note_of(before, A, at(0, 15), 5, PLAIN)
    assert over["late"] == 0
    late = note_of(over, A, at(9, 0), 3, PLAIN)
    assert late["late"] == 3
    assert note_of(late, A, at(9, 1), 4, PLAIN)["late"] == 7


def test_days_with_new_events_and_days_of_other_limits_are_replayed() -> None:
    tried = replace(PLAIN, what_if="{}")
    hour = hours_of_day(A)[3]
    done = {**noted(A, what_if=what_if_mark(tried)), **noted(B)}
    assert days_to_try(done, [hour], (), tried) == [A, B]
    assert days_to_try(done, (), (), tried) == [B]
    assert days_to_try(done, (), hours_of_day(B), tried) == []
    assert days_to_try(done, (), (), PLAIN) == [A]
    assert days_to_try(noted(B), [hours_of_day(B)[0]], (), PLAIN) == []
    assert note_of(done[A.isoformat()], A, 7, 0, PLAIN)["what_if"] == what_if_mark(tried)


NOON_US, HOUR_US = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()) * 1_000_000, 3_600_000_000


def recommended(
    now_us: int, *, is_daily: bool = True, holes: Sequence[int] = (), wrong: Sequence[date] = (), **files: str
) -> str:
    """The mark of days, each of which has one file; `holes` have times, `wrong` files have days."""
    days = {f"2026-11-{day.removeprefix('d')}": (path,) for day, path in files.items()}
    return recommended_mark(
        {"connection_seconds": days},
        {day: {} for day in days},
        now_us,
        PLAIN,
        [Hole(at_us, "shop", 1, 5) for at_us in holes],
        [SetAside("torn.parquet", "damaged", day) for day in wrong],
        is_daily=is_daily,
    )


def test_limits_are_recommended_again_when_a_day_is_over_or_gets_late_events() -> None:
    yesterday = recommended(NOON_US, d19="a", d20="b")
    # The hours of the present day are built one after the other, and their last events land later.
    assert recommended(NOON_US + HOUR_US, d19="a", d20="c", holes=[NOON_US], wrong=[C]) == yesterday
    assert recommended(NOON_US, d19="late", d20="b") != yesterday
    assert recommended(NOON_US, d19="a", d20="b", holes=[NOON_US - 24 * HOUR_US]) != yesterday
    assert recommended(NOON_US, d19="a", d20="b", wrong=[B]) != yesterday
    assert recommended(NOON_US, d18="new", d19="a", d20="b") != yesterday
    is_over = recommended(NOON_US + 13 * HOUR_US, d19="a", d20="b")
    assert is_over != yesterday
    assert recommended(NOON_US + 14 * HOUR_US, d19="a", d20="b", d21="c") == is_over


def test_each_hour_changes_recommended_limits_if_no_day_is_over_or_no_schedule_is_named() -> None:
    assert recommended(NOON_US, d20="a") != recommended(NOON_US, d20="b")
    assert recommended(NOON_US, d20="a", d21="a") != recommended(NOON_US, d20="a", d21="b")
    by_each = [recommended(NOON_US, is_daily=False, d19="a", d20=path) for path in ("b", "c")]
    assert by_each[0] != by_each[1]
