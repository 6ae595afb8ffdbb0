"""The days that a build computes: new ones, and those with other settings, but none that would lose events."""

from dataclasses import replace
from datetime import UTC, date, datetime

from audit_pipeline.jobs.days import AskedDays, days_to_build, days_to_compute, note_of, results_mark
from audit_pipeline.results.settings import Prices, Settings, StormLimits

A, B, C = date(2026, 11, 18), date(2026, 11, 19), date(2026, 11, 20)
PLAIN = Settings()


def noted(day: date, settings: Settings = PLAIN, **more: object) -> dict[str, dict[str, object]]:
    told = note_of(None, day, 0, 0, settings)
    return {day.isoformat(): {**told, "settings": results_mark(settings), **more}}


def test_days_with_new_events_are_built_if_requested() -> None:
    assert days_to_build({C, A}, set(), {}, AskedDays(), PLAIN) == [A, C]
    assert days_to_build({A, B, C}, set(), {}, AskedDays(first=B, last=B), PLAIN) == [B]
    assert days_to_build({A, B, C}, set(), {}, AskedDays(oldest=B), PLAIN) == [B, C]


def test_days_whose_files_were_deleted_are_not_rebuilt() -> None:
    assert days_to_build({A, B}, {A}, noted(A), AskedDays(), PLAIN) == [B]


def test_other_limits_of_storms_need_the_events_of_all_days_again() -> None:
    others = replace(PLAIN, storms=StormLimits(connections=50))
    assert days_to_build(set(), {B}, {**noted(A), **noted(B)}, AskedDays(), others) == [A]
    assert days_to_build(set(), set(), noted(A), AskedDays(), PLAIN) == []


def test_other_prices_need_results_again_and_no_events() -> None:
    others = replace(PLAIN, prices=Prices("EUR", {"ingress": 1.0}))
    assert days_to_build(set(), set(), noted(A), AskedDays(), others) == []
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
