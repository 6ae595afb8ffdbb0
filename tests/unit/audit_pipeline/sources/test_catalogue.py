"""The files that count: each event once, even if files were copied, merged, deleted or are late."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from itertools import permutations

import pytest

from audit_pipeline.hours import hours_of_day
from audit_pipeline.sources.catalogue import (
    DAY_US,
    Catalogue,
    Hole,
    SegmentEntry,
    SetAside,
    built_with,
    catalogue,
    holes,
    hours_that_lost,
    touched_hours,
)

DAY, NEXT_DAY = date(2026, 11, 20), date(2026, 11, 21)
HOUR, MIDNIGHT = hours_of_day(DAY)[5], hours_of_day(NEXT_DAY)[0]
OVER_MIDNIGHT = set(range(HOUR, MIDNIGHT + 1))
"""The hours of a file that begins in HOUR and ends after midnight."""
START_US = 1_795_132_800_000_000
HOUR_US = 3_600_000_000
BEGAN_US = START_US + 5 * HOUR_US
SETTLED_US = START_US + 9 * DAY_US


def entry(low: int, high: int | None = None, *, day: int = 0, folder: str = "05", **more: object) -> SegmentEntry:
    """Spools low to high with ten events each, begun in hour 5 of a day."""
    high = low if high is None else high
    opened_us = START_US + day * DAY_US + 5 * HOUR_US + low
    name = f"{low:08d}" if low == high else f"{low:08d}-{high:08d}"
    told = {
        "source": "s",
        "path": f"request/arrival_date={DAY}/arrival_hour={folder}/c-1-b-{name}.parquet",
        "size": 100,
        "table": "request",
        "cluster_id": "c",
        "broker_id": 1,
        "boot_id": "b",
        "low": low,
        "high": high,
        "first_seq": low * 10 + 1,
        "last_seq": high * 10 + 10,
        "opened_us": opened_us,
        "closed_us": opened_us + 60_000_000,
        "end": "next",
        "rows": 10 * (high - low + 1),
        "ts_min": opened_us,
        "ts_max": opened_us + 60_000_000,
    }
    return SegmentEntry(**{**told, **more})  # type: ignore[arg-type]


def found(*present: SegmentEntry, former: Sequence[SegmentEntry] = ()) -> Catalogue:
    return catalogue(present, former, [])


def built(of: Catalogue) -> list[SegmentEntry]:
    """The remembered entries after all hours with events of the files were built."""
    return built_with(of.entries, {hour for each in of.entries for hour in each.hours()})


def ranges(of: Catalogue) -> list[tuple[int, int]]:
    return [(each.low, each.high) for each in of.entries if each.is_present]


def test_the_start_of_the_day_is_what_the_test_takes_it_for() -> None:
    assert list(entry(0).hours()) == [HOUR]


def test_a_copy_and_what_was_merged_into_another_file_are_duplicates() -> None:
    of = found(entry(0), entry(1), entry(0, 1), entry(2), entry(2, folder="06"))
    assert ranges(of) == [(0, 1), (2, 2)]
    assert [each.reason for each in of.apart] == ["duplicate"] * 3
    assert {each.rows for each in of.apart} == {10}


def test_the_first_of_files_with_common_spools_counts_and_the_others_are_reported() -> None:
    of = found(entry(0, 2), entry(2, 3))
    assert ranges(of) == [(0, 2)]
    (told,) = of.apart
    assert (told.reason, told.rows) == ("corrupt", 20)
    assert (
        told.detail
        == f"some of its events are also in {entry(0, 2).path}: this file is left out, and events that only it has "
        "are not in any result"
    )


def test_a_file_whose_events_are_all_in_files_that_share_none_is_a_duplicate() -> None:
    of = found(entry(0, 2), entry(2, 3), entry(3))
    assert ranges(of) == [(0, 2), (3, 3)]
    assert [(each.reason, each.path) for each in of.apart] == [("duplicate", entry(2, 3).path)]


@pytest.mark.parametrize("order", list(permutations([(0, 2), (2, 3), (3, 5), (4, 4)])))
def test_files_that_share_spools_come_to_the_same_in_whatever_order_builds_find_them(
    order: Sequence[tuple[int, int]],
) -> None:
    """Files that counted before and are left out now change their days, though no file was deleted."""
    there: list[SegmentEntry] = []
    former: list[SegmentEntry] = []
    rows_of_day: set[tuple[int, int]] = set()
    for low, high in order:
        there.append(entry(low, high))
        of = found(*there, former=former)
        assert hours_that_lost(of.entries) == set()
        if HOUR in touched_hours(of, former):
            rows_of_day = {(each.low, each.high) for each in of.touching([HOUR])}
        former = built(of)
        assert touched_hours(found(*there, former=former), former) == set()
    assert rows_of_day == {(0, 2), (3, 5)}
    assert [(each.reason, each.path) for each in of.apart] == [
        ("duplicate", entry(2, 3).path),
        ("duplicate", entry(4, 4).path),
    ]


def test_hours_of_a_file_that_counted_and_is_left_out_now_are_built_again() -> None:
    over_midnight = entry(2, 3, ts_max=START_US + DAY_US + 5)
    before = built(found(over_midnight))
    of = found(over_midnight, entry(0, 2), former=before)
    assert ranges(of) == [(0, 2)]
    assert touched_hours(of, before) == OVER_MIDNIGHT


def test_merging_touches_no_hour_and_loses_none() -> None:
    before = built(found(entry(0), entry(1)))
    of = found(entry(0, 1), former=before)
    assert touched_hours(of, before) == set()
    assert hours_that_lost(of.entries) == set()
    assert ranges(of) == [(0, 1)]


def test_a_file_that_was_not_there_touches_its_hours() -> None:
    before = built(found(entry(0)))
    over_midnight = entry(1, ts_max=START_US + DAY_US + 5)
    of = found(entry(0), over_midnight, former=before)
    assert touched_hours(of, before) == OVER_MIDNIGHT
    assert touched_hours(found(entry(0), former=before), before) == set()


def test_a_file_touches_an_hour_until_it_was_built_with_it() -> None:
    over_midnight = entry(1, ts_max=START_US + DAY_US + 5)
    before = built_with(found(entry(0), over_midnight).entries, hours_of_day(DAY))
    assert touched_hours(found(entry(0), over_midnight, former=before), before) == {MIDNIGHT}
    merged = found(entry(0, 1, ts_max=START_US + DAY_US + 5), former=before)
    assert touched_hours(merged, before) == {MIDNIGHT}


def test_spools_that_reappear_in_other_files_touch_the_hour_built_without_them() -> None:
    before = built_with(found(entry(0, 1), entry(2)).entries, [])
    after = built(found(entry(2), former=before))
    back = found(entry(0), entry(1), entry(2), former=after)
    assert (back.apart, touched_hours(back, after)) == ((), {HOUR})


def test_an_hour_whose_files_were_deleted_stays_as_built() -> None:
    before = built(found(entry(0), entry(1)))
    of = found(entry(1), entry(2), former=before)
    assert hours_that_lost(of.entries) == {HOUR}
    assert touched_hours(of, before) == set()
    (late,) = of.apart
    assert (late.reason, late.event_date) == ("expired", DAY)
    again = found(entry(1), entry(2), former=of.entries)
    assert [each.reason for each in again.apart] == ["expired"]


def test_files_deleted_before_their_hour_is_built_are_reported_and_the_others_are_built() -> None:
    before = built_with(found(entry(0), entry(1), entry(2, day=1)).entries, hours_of_day(NEXT_DAY))
    of = found(entry(1), entry(2, day=1), former=before)
    assert (hours_that_lost(of.entries), touched_hours(of, before)) == (set(), {HOUR})
    (told,) = of.apart
    assert (told.path, told.reason, told.event_date, told.rows) == (entry(0).path, "lost", DAY, 10)
    after = built(of)
    again = found(entry(1), entry(2, day=1), former=after)
    assert [each.reason for each in again.apart] == ["lost"]
    assert touched_hours(again, after) == set()
    back = found(entry(0), entry(1), entry(2, day=1), former=after)
    assert (back.apart, touched_hours(back, after)) == ((), {HOUR})


def test_a_file_deleted_after_one_of_its_two_days_was_built_is_lost_for_the_other_day() -> None:
    over_midnight = entry(0, ts_max=START_US + DAY_US + 5)
    before = built_with(found(over_midnight).entries, hours_of_day(DAY))
    of = found(former=before)
    assert hours_that_lost(of.entries) == OVER_MIDNIGHT - {MIDNIGHT}
    assert [(each.reason, each.event_date, each.rows) for each in of.apart] == [("lost", NEXT_DAY, None)]


def test_a_file_that_is_damaged_when_its_day_was_built_stays_in_results_and_is_told() -> None:
    before = built(found(entry(0), entry(1)))
    damaged = replace(before[0], fault="corrupt", detail="a page does not match its checksum")
    of = found(damaged, before[1], former=before)
    assert (hours_that_lost(of.entries), touched_hours(of, before)) == ({HOUR}, set())
    assert [(each.reason, each.detail) for each in of.apart] == [
        (
            "corrupt",
            f"a page does not match its checksum; the results of {DAY} 05:00 to 06:00 were built before and include it",
        )
    ]
    unread = SetAside(entry(0).path, "corrupt", DAY, "c", 1, "request", detail="its footer cannot be read")
    of = catalogue([before[1]], before, [unread])
    assert [each.detail for each in of.apart] == [
        f"its footer cannot be read; the results of {DAY} 05:00 to 06:00 were built before and include it"
    ]
    (told,) = catalogue([before[1]], found(entry(0), entry(1)).entries, [unread]).apart
    assert told == unread


def test_a_quarantined_file_counts_again_once_it_is_intact() -> None:
    torn = entry(0, fault="corrupt", detail="cut off")
    of = found(torn)
    assert (ranges(of), [each.reason for each in of.apart]) == ([], ["corrupt"])
    mended = found(entry(0, size=200), former=built(of))
    assert touched_hours(mended, of.entries) == {HOUR}


def test_numbers_between_segments_are_holes_of_the_day_of_the_later_one() -> None:
    of = found(entry(1), entry(4, day=1, end="stopped"))
    first, second = Hole(BEGAN_US + 1, "c", 1, 10), Hole(BEGAN_US + DAY_US + 4, "c", 1, 20)
    assert holes(of, {}, SETTLED_US) == [first, second]
    assert holes(of, {("c", 1, "b"): 10}, SETTLED_US) == [second]


def test_a_file_that_others_name_and_that_is_not_there_is_a_hole() -> None:
    siblings = {"request": 10, "connection": 3}
    of = found(entry(0, end="stopped", siblings=siblings))
    assert holes(of, {}, SETTLED_US) == [Hole(BEGAN_US, "c", 1, 3)]
    connection = entry(
        0, end="stopped", siblings=siblings, table="connection", path=entry(0).path.replace("request", "connection")
    )
    assert holes(found(entry(0, end="stopped", siblings=siblings), connection), {}, SETTLED_US) == []
    torn = found(entry(0, end="stopped", siblings=siblings), replace(connection, fault="corrupt"))
    assert holes(torn, {}, SETTLED_US) == []


def test_a_boot_without_its_next_file_is_a_hole_once_a_later_boot_exists() -> None:
    last = entry(0)
    assert holes(found(last), {}, last.closed_us) == []
    later = entry(0, boot_id="c", end="stopped", path=last.path.replace("-b-", "-c-"))
    assert holes(found(last, later), {}, last.closed_us) == [Hole(last.closed_us, "c", 1, 1)]


def test_the_last_boot_is_open_if_it_has_no_end_and_its_last_segment_is_old() -> None:
    last = entry(1)
    opened = Hole(last.closed_us, "c", 1, 1, last.closed_us)
    assert holes(found(entry(0), last), {}, last.closed_us + 1) == [opened]
    assert holes(found(entry(0), last), {}, last.closed_us) == []
    assert holes(found(entry(0), entry(1, end="killed")), {}, SETTLED_US) == []


def test_files_that_are_set_aside_leave_no_hole_in_numbers() -> None:
    of = found(
        entry(0), entry(1, fault="version", detail="2"), entry(2, fault="future", detail="x"), entry(3, end="stopped")
    )
    assert holes(of, {}, SETTLED_US) == []


def test_a_late_file_counts_once_the_missing_files_are_back() -> None:
    """A mount may have been empty, or files may have been listed while they were merged."""
    before = built(found(entry(0)))
    late = found(entry(1), former=before).entries
    back = found(entry(0), entry(1), former=late)
    assert back.apart == ()
    assert touched_hours(back, late) == {HOUR}
    after = built(back)
    assert touched_hours(found(entry(0), entry(1), former=after), after) == set()


def test_a_late_file_stays_reported_after_a_merge_with_others() -> None:
    before = built(found(entry(0), entry(1, day=1)))
    late = found(entry(1, day=1), entry(2), former=before).entries
    merged = found(entry(1, 2, ts_max=START_US + DAY_US + 5 * HOUR_US), former=late)
    assert [(each.reason, each.event_date) for each in merged.apart] == [("expired", DAY)]
    assert touched_hours(merged, late) == set()


def test_only_the_hours_of_a_day_that_lost_files_stay_as_built() -> None:
    before = built(found(entry(0), entry(1, ts_min=START_US, ts_max=START_US)))
    of = found(entry(1, ts_min=START_US, ts_max=START_US), entry(2, ts_min=START_US, ts_max=START_US), former=before)
    assert hours_that_lost(of.entries) == {HOUR}
    assert (touched_hours(of, before), of.apart) == ({hours_of_day(DAY)[0]}, ())
