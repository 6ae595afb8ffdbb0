"""A build with nothing new publishes the same results without Spark."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from audit_pipeline.hours import by_day
from audit_pipeline.jobs.days import AskedDays, note_of, recommended_mark, results_mark
from audit_pipeline.jobs.unchanged import (
    MADE_FROM,
    MARK,
    RECOMMENDED_FROM,
    are_recommended,
    made_from,
    published_again,
)
from audit_pipeline.reading.published import STATE_TABLE, Manifest, read_manifest
from audit_pipeline.results.settings import Settings, StormLimits
from audit_pipeline.sources.landed import LandedSegments
from audit_pipeline.spool.targets import FolderTarget
from tests.support.audit.audit_weeks.week import Week, write_week

WEEK = Week(days=1, events=200, spoils=(), storm=0)
SETTINGS = Settings()
HOUR_US = 3_600_000_000
SETTLED_US = 120_000_000
LATER_US = WEEK.now_us + HOUR_US


class Built:
    """Results of a build of WEEK an hour after its end."""

    def __init__(self, folder: Path) -> None:
        self.segments, self.target = folder / "segments", FolderTarget(folder / "results")
        (folder / "results").mkdir()
        write_week(WEEK, self.segments)
        source = self.scanned(None)
        source.settle(sorted(source.touched))
        state = f"{STATE_TABLE}/20261110T000000-0000beef.state"
        self.target.put(state, source.remembered())
        notes = {
            day.isoformat(): note_of(None, day, LATER_US, 0, SETTINGS) | {"settings": results_mark(SETTINGS)}
            for day in by_day(self.scanned(None).touched)
        }
        holes, wrong = source.holes(LATER_US - SETTLED_US), source.set_aside
        digest = made_from(SETTINGS, holes, wrong)
        mark = recommended_mark({}, notes, LATER_US, SETTINGS, holes, wrong, is_daily=False)
        recommended = {MARK: mark, "clusters": []}
        summary = {MADE_FROM: digest, RECOMMENDED_FROM: recommended}
        self.former = Manifest("1", LATER_US, {STATE_TABLE: {"": (state,)}}, notes, summary=summary)

    def scanned(self, remembered: bytes | None) -> LandedSegments:
        return LandedSegments([str(self.segments)], remembered, LATER_US)

    def again(
        self, settings: Settings = SETTINGS, asked: AskedDays | None = None, former: Manifest | None = None
    ) -> Manifest | None:
        now_us, known = LATER_US + HOUR_US, former or self.former
        source = self.scanned(known.state(self.target))
        return published_again(self.target, known, source, settings, asked or AskedDays(), now_us, now_us - SETTLED_US)


@pytest.fixture
def built(tmp_path: Path) -> Built:
    return Built(tmp_path)


def test_the_same_results_are_published_as_those_of_now(built: Built) -> None:
    manifest = built.again()
    assert manifest is not None
    assert (manifest.version, manifest.built_us, manifest.files) == ("1", LATER_US + HOUR_US, built.former.files)
    assert (manifest.summary["rows"], manifest.summary["hours"]) == ({}, [])
    assert read_manifest(built.target) == manifest


def test_whatever_is_new_needs_a_build(built: Built) -> None:
    assert built.again(Settings(storms=StormLimits(connections=7))) is None
    assert built.again(asked=AskedDays(oldest=date(2027, 1, 1))) is None
    assert built.again(former=replace(built.former, pending=("2026-11-09T05",))) is None
    assert built.again(former=replace(built.former, summary={})) is None
    # Limits were recommended before the last hours of the day.
    open_day = {**built.former.summary, RECOMMENDED_FROM: {MARK: "of an open day", "clusters": []}}
    assert built.again(former=replace(built.former, summary=open_day)) is None
    (day, *_) = built.former.days
    assert built.again(former=replace(built.former, days={day: {}})) is None
    # What was too young for the former build is judged now.
    assert built.again(former=replace(built.former, built_us=WEEK.last_us)) is None


def test_a_lost_file_of_a_whole_result_is_written_again_by_a_build(built: Built) -> None:
    files = {**built.former.files, "storms": {"": ("storms/20261110T000000-0000beef-00000.parquet",)}}
    assert built.again(former=replace(built.former, files=files)) is None


def test_a_segment_more_or_less_needs_a_build(built: Built) -> None:
    request = next((built.segments / "request").rglob("*.parquet"))
    request.with_name("torn.parquet").write_bytes(b"torn")
    assert built.again() is None
    request.with_name("torn.parquet").unlink()
    assert built.again() is not None
    request.unlink()
    assert built.again() is None


def test_recommended_limits_stay_while_their_tables_and_days_do(built: Built) -> None:
    made = built.former.summary[RECOMMENDED_FROM]
    assert are_recommended(built.target, built.former, made)
    assert not are_recommended(built.target, built.former, {**made, "clusters": ["new"]})
    assert not are_recommended(built.target, replace(built.former, summary={}), made)
    lost = {**built.former.files, "tried_limits": {"": ("tried_limits/20261110T000000-0000beef-00000.parquet",)}}
    assert not are_recommended(built.target, replace(built.former, files=lost), made)
