"""The published results do not depend on how segments arrive, in which order, and what is merged in between.

SLUICEGATE_AUDIT_ROUNDS is the number of built variants; `make soak` builds twenty. Many more variants are only planned:
the segments of a day are selected before Spark runs.
"""

import os
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from audit_pipeline.results.settings import RESOURCES, Prices, Settings, StormLimits
from audit_pipeline.sources.catalogue import SegmentEntry
from audit_pipeline.sources.landed import LandedSegments
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.compact import compact
from tests.support.audit.audit_builds import built, published
from tests.support.audit.audit_oracle.comparing import all_differences, differences
from tests.support.audit.audit_oracle.oracle import audit_results
from tests.support.audit.audit_weeks.spoiling import Landed
from tests.support.audit.audit_weeks.week import Week, arrivals, cluster_id, put

pytestmark = pytest.mark.full

EXAMPLES = int(os.environ.get("SLUICEGATE_AUDIT_ROUNDS", "1"))
LOOKED_AT = 10 * EXAMPLES
DAYS = Week(
    days=2,
    hours=1,
    segments=4,
    events=300,
    storm=20,
    topics=3,
    principals=4,
    spoils=("skewed", "torn", "late", "copied", "future"),
)
PRICES = Prices("EUR", {**dict.fromkeys(RESOURCES, 0.0), "storage": 1.0, "ingress": 2.0})
SETTINGS = Settings(PRICES, (), DAYS.mirrors, StormLimits(15, 4))
NO_SHRINKING = (Phase.explicit, Phase.generate)
"""Shrinking is off: smaller drawn numbers are not simpler."""
HOUR_US = 3_600_000_000
MERGED_BYTES = 2**30

Spool = tuple[str, tuple[str, int, str], int]
"""Table, boot and number, which a merge does not change."""


@settings(max_examples=LOOKED_AT, phases=NO_SHRINKING)
@given(drawn=st.randoms(use_true_random=False))
def test_hours_are_built_of_the_same_segments_in_whatever_pieces_they_come(drawn: random.Random) -> None:
    files = _files(replace(DAYS, seed=drawn.randrange(3)))
    with TemporaryDirectory() as whole, TemporaryDirectory() as pieces:
        source = Path(pieces)
        for file in files:
            put(file, Path(whole))
        at_once = LandedSegments([whole], None, DAYS.now_us)
        rows_of = {
            (hour, spool) for entry in at_once.found.entries for hour in entry.hours() for spool in _spools(entry)
        }
        drawn.shuffle(files)
        remembered = None
        built_of: dict[int, Counter[Spool]] = {}
        cuts = sorted(drawn.sample(range(1, len(files)), 3))
        for first, last in zip([0, *cuts], [*cuts, len(files)], strict=True):
            for file in files[first:last]:
                put(file, source)
            look = LandedSegments([pieces], remembered, DAYS.now_us)
            waiting = look.touched
            asked = sorted(waiting)
            if last < len(files):
                # Omit hours, as --from and --to do.
                asked = drawn.sample(asked, drawn.randint(0, len(asked)))
            for hour in asked:
                there = Counter(spool for entry in look.found.touching([hour]) for spool in _spools(entry))
                built_of[hour] = Counter({spool: times for spool, times in there.items() if (hour, spool) in rows_of})
                look.settle([hour])
            assert look.touched == waiting.difference(asked)
            remembered = look.remembered()
            if last < len(files):
                _disturb(drawn, source, files[:last])
        again = LandedSegments([pieces], remembered, DAYS.now_us)
        assert (again.touched, again.lost) == (set(), set())
        once = {hour: Counter(spool for of_hour, spool in rows_of if of_hour == hour) for hour in at_once.touched}
        assert built_of == once
        assert again.holes(DAYS.now_us) == at_once.holes(DAYS.now_us)
        assert _damaged(again) == _damaged(at_once)


@settings(max_examples=EXAMPLES, phases=NO_SHRINKING)
@given(seed=st.integers(0, 2**32 - 1))
def test_pieces_orders_repeats_delays_and_merges_change_no_result(
    seed: int, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    drawn = random.Random(seed)
    source, results = tmp_path_factory.mktemp("landed"), tmp_path_factory.mktemp("results")
    week = replace(DAYS, seed=drawn.randrange(1_000))
    files = _files(week)
    drawn.shuffle(files)
    cut = drawn.randrange(len(files) // 4, len(files))
    for file in files[:cut]:
        put(file, source)
    built(spark, source, results, week.now_us, SETTINGS)
    _disturb(drawn, source, files[:cut])
    for file in files[cut:]:
        put(file, source)
    built(spark, source, results, week.now_us, SETTINGS)
    assert all_differences(audit_results(source, week.now_us, SETTINGS), published(results)) == []


def test_files_deleted_before_their_day_is_built_are_reported_and_the_others_are_built(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Files vanish as by retention, after --to omitted their day, or because their landing was undone."""
    source, results = tmp_path / "landed", tmp_path / "results"
    days = [DAYS.first_day, DAYS.first_day + timedelta(days=1)]
    week = replace(DAYS, segments=2, spoils=())
    for file in _files(week):
        put(file, source)
    manifest = built(spark, source, results, week.now_us, SETTINGS, last=days[0])
    # Brokers stop in the second hour of a day.
    assert (list(manifest.days), manifest.pending) == ([str(days[0])], (f"{days[1]}T00", f"{days[1]}T01"))
    gone = sorted(source.glob(f"*/arrival_date={days[1]}/*/*{cluster_id(0)}-0-*"))
    for path in gone:
        path.unlink()
    manifest = built(spark, source, results, week.now_us, SETTINGS)
    assert (list(manifest.days), manifest.pending) == ([str(day) for day in days], ())
    found, expected = published(results), audit_results(source, week.now_us, SETTINGS)
    told = sorted((row["path"], row["reason"], row["event_date"]) for row in found["quarantine"].to_pylist())
    assert told == [(path.relative_to(source).as_posix(), "lost", days[1]) for path in gone]
    assert manifest.summary["quarantinedFiles"] == len(gone)
    # The rest of the day is in the results, which report that the day is not complete.
    assert differences("traffic", expected["traffic"], found["traffic"]) == []
    incomplete = {
        (row["event_date"], row["broker_id"], row["quarantined_files"])
        for row in found["completeness"].to_pylist()
        if not row["is_complete"]
    }
    assert incomplete == {(days[1], 0, len(gone))}


def _files(week: Week) -> list[Landed]:
    return [file for batch in arrivals(week)[0] for file in batch]


def _disturb(drawn: random.Random, source: Path, there: Sequence[Landed]) -> None:
    """Merge hours, and put some files again: before the merge, and beside the merged file."""
    again = drawn.sample(there, len(there) // 4)
    for file in again[::2]:
        put(file, source)
    compact(FolderTarget(source), DAYS.last_us + HOUR_US, MERGED_BYTES)
    for file in again[1::2]:
        put(file, source)


def _spools(entry: SegmentEntry) -> Iterable[Spool]:
    return ((entry.table, entry.boot, number) for number in range(entry.low, entry.high + 1))


def _damaged(look: LandedSegments) -> set[tuple[str, str]]:
    """Return damaged files, without duplicates and wrong clocks: repeated files exist only in one of the two runs."""
    return {(each.path, each.reason) for each in look.set_aside if each.reason not in ("duplicate", "clock")}
