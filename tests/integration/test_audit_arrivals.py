"""In whatever pieces and order segments arrive, and whatever is merged meanwhile, days are built of the same ones.

Which these are is decided before Spark is asked. SLUICEGATE_AUDIT_ROUNDS says how many ways are tried, by tens.
"""

import os
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from audit_pipeline.compact import compact
from audit_pipeline.sources.catalogue import SegmentEntry
from audit_pipeline.sources.landed import LandedSegments
from audit_pipeline.targets import FolderTarget
from tests.support.audit_weeks.spoiling import Landed
from tests.support.audit_weeks.week import Week, arrivals, put

LOOKED_AT = 10 * int(os.environ.get("SLUICEGATE_AUDIT_ROUNDS", "1"))
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
NO_SHRINKING = (Phase.explicit, Phase.generate)
"""Other drawn numbers are not simpler, only others."""
HOUR_US = 3_600_000_000
MERGED_BYTES = 2**30

Spool = tuple[str, tuple[str, int, str], int]
"""Table, boot and number: what is merged keeps them."""


@settings(max_examples=LOOKED_AT, phases=NO_SHRINKING)
@given(drawn=st.randoms(use_true_random=False))
def test_days_are_built_of_the_same_segments_in_whatever_pieces_they_come(drawn: random.Random) -> None:
    files = _files(replace(DAYS, seed=drawn.randrange(3)))
    with TemporaryDirectory() as whole, TemporaryDirectory() as pieces:
        source = Path(pieces)
        for file in files:
            put(file, Path(whole))
        at_once = LandedSegments([whole], None, DAYS.now_us)
        rows_of = {(day, spool) for entry in at_once.found.entries for day in entry.days() for spool in _spools(entry)}
        drawn.shuffle(files)
        remembered = None
        built_of: dict[date, Counter[Spool]] = {}
        cuts = sorted(drawn.sample(range(1, len(files)), 3))
        for first, last in zip([0, *cuts], [*cuts, len(files)], strict=True):
            for file in files[first:last]:
                put(file, source)
            look = LandedSegments([pieces], remembered, DAYS.now_us)
            waiting = look.touched
            asked = sorted(waiting)
            if last < len(files):
                # As --from and --to leave out others.
                asked = drawn.sample(asked, drawn.randint(0, len(asked)))
            for day in asked:
                there = Counter(spool for entry in look.found.touching([day]) for spool in _spools(entry))
                built_of[day] = Counter({spool: times for spool, times in there.items() if (day, spool) in rows_of})
                look.settle([day])
            assert look.touched == waiting.difference(asked)
            remembered = look.remembered()
            if last < len(files):
                _disturb(drawn, source, files[:last])
        again = LandedSegments([pieces], remembered, DAYS.now_us)
        assert (again.touched, again.lost) == (set(), set())
        once = {day: Counter(spool for of_day, spool in rows_of if of_day == day) for day in at_once.touched}
        assert built_of == once
        assert again.holes == at_once.holes
        assert _damaged(again) == _damaged(at_once)


def _files(week: Week) -> list[Landed]:
    return [file for batch in arrivals(week)[0] for file in batch]


def _disturb(drawn: random.Random, source: Path, there: Sequence[Landed]) -> None:
    """Hours are merged, some files come once more: where they were, and beside what was made of them."""
    again = drawn.sample(there, len(there) // 4)
    for file in again[::2]:
        put(file, source)
    compact(FolderTarget(source), DAYS.last_us + HOUR_US, MERGED_BYTES)
    for file in again[1::2]:
        put(file, source)


def _spools(entry: SegmentEntry) -> Iterable[Spool]:
    return ((entry.table, entry.boot, number) for number in range(entry.low, entry.high + 1))


def _damaged(look: LandedSegments) -> set[tuple[str, str]]:
    """Copies are another matter: files that came again are there now."""
    return {(each.path, each.reason) for each in look.set_aside if each.reason not in ("duplicate", "clock")}
