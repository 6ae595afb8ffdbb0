"""Which files count: each event once, whatever was copied, merged, deleted or comes late."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from audit_pipeline.sources.catalogue import (
    DAY_US,
    Catalogue,
    Hole,
    SegmentEntry,
    catalogue,
    days_that_lost,
    holes,
    touched_days,
)

DAY = date(2026, 11, 20)
START_US = 1_795_132_800_000_000
HOUR_US = 3_600_000_000


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


def ranges(of: Catalogue) -> list[tuple[int, int]]:
    return [(each.low, each.high) for each in of.entries if each.is_present]


def test_the_start_of_the_day_is_what_the_test_takes_it_for() -> None:
    assert entry(0).days() == {DAY}


def test_a_copy_and_what_was_merged_into_another_file_are_duplicates() -> None:
    of = found(entry(0), entry(1), entry(0, 1), entry(2), entry(2, folder="06"))
    assert ranges(of) == [(0, 1), (2, 2)]
    assert [each.reason for each in of.apart] == ["duplicate"] * 3
    assert {each.rows for each in of.apart} == {10}


def test_files_that_share_some_spools_only_are_not_both_counted() -> None:
    of = found(entry(0, 2), entry(2, 3))
    assert ranges(of) == [(0, 2)]
    assert [(each.reason, each.rows) for each in of.apart] == [("corrupt", 20)]


def test_merging_touches_no_day_and_loses_none() -> None:
    before = found(entry(0), entry(1)).entries
    of = found(entry(0, 1), former=before)
    assert touched_days(of.entries, before) == set()
    assert days_that_lost(of.entries) == set()
    assert ranges(of) == [(0, 1)]


def test_a_file_that_was_not_there_touches_its_days() -> None:
    before = found(entry(0)).entries
    over_midnight = entry(1, ts_max=START_US + DAY_US + 5)
    of = found(entry(0), over_midnight, former=before)
    assert touched_days(of.entries, before) == {DAY, date(2026, 11, 21)}
    assert touched_days(found(entry(0), former=before).entries, before) == set()


def test_a_day_whose_files_have_gone_stays_as_it_was_built() -> None:
    before = found(entry(0), entry(1)).entries
    of = found(entry(1), entry(2), former=before)
    assert days_that_lost(of.entries) == {DAY}
    assert touched_days(of.entries, before) == set()
    (late,) = of.apart
    assert (late.reason, late.event_date) == ("expired", DAY)
    again = found(entry(1), *(each for each in of.entries if each.low == 2), former=of.entries)
    assert [each.reason for each in again.apart] == ["expired"]


def test_what_is_set_aside_counts_again_when_it_is_whole() -> None:
    torn = entry(0, fault="corrupt", detail="cut off")
    of = found(torn)
    assert (ranges(of), [each.reason for each in of.apart]) == ([], ["corrupt"])
    mended = found(entry(0, size=200), former=of.entries)
    assert touched_days(mended.entries, of.entries) == {DAY}


def test_numbers_between_segments_are_holes_of_the_day_of_the_later_one() -> None:
    of = found(entry(1), entry(4, day=1, end="stopped"))
    assert holes(of, {}) == [Hole(DAY, "c", 1, 10), Hole(date(2026, 11, 21), "c", 1, 20)]
    assert holes(of, {("c", 1, "b"): 10}) == [Hole(date(2026, 11, 21), "c", 1, 20)]


def test_a_file_that_others_name_and_that_is_not_there_is_a_hole() -> None:
    siblings = {"request": 10, "connection": 3}
    of = found(entry(0, end="stopped", siblings=siblings))
    assert holes(of, {}) == [Hole(DAY, "c", 1, 3)]
    connection = entry(
        0, end="stopped", siblings=siblings, table="connection", path=entry(0).path.replace("request", "connection")
    )
    assert holes(found(entry(0, end="stopped", siblings=siblings), connection), {}) == []
    torn = found(entry(0, end="stopped", siblings=siblings), replace(connection, fault="corrupt"))
    assert holes(torn, {}) == []


def test_a_boot_that_goes_on_and_does_not_is_a_hole_when_a_later_one_is_there() -> None:
    last = entry(0)
    assert holes(found(last), {}) == []
    later = entry(0, boot_id="c", end="stopped", path=last.path.replace("-b-", "-c-"))
    assert holes(found(last, later), {}) == [Hole(DAY, "c", 1, 1)]


def test_files_that_are_set_aside_leave_no_hole_in_numbers() -> None:
    of = found(
        entry(0), entry(1, fault="version", detail="2"), entry(2, fault="future", detail="x"), entry(3, end="stopped")
    )
    assert holes(of, {}) == []


def test_what_came_too_late_counts_when_what_had_gone_is_back() -> None:
    """A mount may have been empty, or files may have been listed while they were merged."""
    before = found(entry(0)).entries
    late = found(entry(1), former=before).entries
    (remembered,) = (each for each in late if each.low == 1)
    back = found(entry(0), remembered, former=late)
    assert back.apart == ()
    assert touched_days(back.entries, late) == {DAY}
    assert touched_days(back.entries, back.entries) == set()


def test_what_came_too_late_stays_told_when_it_is_merged_with_others() -> None:
    before = found(entry(0), entry(1, day=1)).entries
    late = found(entry(1, day=1), entry(2), former=before).entries
    merged = found(entry(1, 2, ts_max=START_US + DAY_US + 5 * HOUR_US), former=late)
    assert [(each.reason, each.event_date) for each in merged.apart] == [("expired", DAY)]
    assert touched_days(merged.entries, late) == set()
