"""Whether a build would publish the same results again: then it needs no Spark. Shell."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from datetime import date
from hashlib import sha256
from typing import Any, Final

from audit_pipeline.errors import BadUseError
from audit_pipeline.hours import hours_named
from audit_pipeline.jobs.days import AskedDays, days_to_compute, days_to_try, hours_to_build, recommended_mark
from audit_pipeline.reading.published import Manifest, publish, require_files, successor
from audit_pipeline.results.settings import Settings
from audit_pipeline.results.tables import result_tables
from audit_pipeline.sources.catalogue import LOST, Hole, SetAside
from audit_pipeline.sources.landed import LandedSegments
from audit_pipeline.spool.targets import Target

MADE_FROM: Final = "madeFrom"
"""Key of the summary: a digest of everything that whole results are made from, except for facts and daily results."""

RECOMMENDED_FROM: Final = "recommendedFrom"
"""Key of the summary: the mark (jobs.days) of the recommended limits, and the clusters that were known."""
MARK: Final = "mark"
_RECOMMENDED: Final = ("recommended_limits", "tried_limits")


def made_from(settings: Settings, holes: Iterable[Hole], wrong: Iterable[SetAside]) -> str:
    """Return the digest for `MADE_FROM`, of settings and faults of files."""
    parts = (asdict(settings), sorted(map(repr, holes)), sorted(map(repr, wrong)))
    return sha256(repr(parts).encode()).hexdigest()


def are_recommended(target: Target, former: Manifest, made: Mapping[str, Any]) -> bool:
    """Return whether the former results have the recommended limits that are made from the same days and clusters."""
    try:
        require_files(target, former, _RECOMMENDED)
    except BadUseError:
        return False
    return bool(former.summary.get(RECOMMENDED_FROM) == made)


def without_dropped(set_aside: Iterable[SetAside], asked: AskedDays) -> list[SetAside]:
    """Return the files set aside, without lost files of days beyond the retention."""
    return [each for each in set_aside if not (each.reason == LOST and asked.drops(each.event_date))]


def published_again(
    target: Target,
    former: Manifest,
    source: LandedSegments,
    settings: Settings,
    asked: AskedDays,
    now_us: int,
    settled_us: int,
    *,
    is_daily: bool = False,
) -> Manifest | None:
    """Publish the former results as the present ones if nothing has changed.

    Returns None if there is something to compute. Events that were too young to be judged by the former build are
    something to compute, and so are lost files of whole results. `is_daily`: limits are recommended once a day.
    """
    try:
        require_files(target, former, [name for name, table in result_tables().items() if not table.is_by_day])
    except BadUseError:
        return None
    noted = {day: dict(told) for day, told in former.days.items()}
    pending = hours_named(former.pending)
    holes, wrong = source.holes(settled_us), without_dropped(source.set_aside, asked)
    recommended = former.summary.get(RECOMMENDED_FROM, {}).get(MARK)
    changes = (
        former.state(target) != source.remembered(),
        hours_to_build(source.touched | pending, source.lost, noted, asked, settings),
        days_to_compute(noted, settings),
        days_to_try(noted, (), source.lost, settings),
        any(asked.drops(date.fromisoformat(day)) for day in noted),
        source.newest_us >= former.built_us - (now_us - settled_us),
        former.summary.get(MADE_FROM) != made_from(settings, holes, wrong),
        recommended != recommended_mark(former.files, noted, now_us, settings, holes, wrong, is_daily=is_daily),
    )
    if any(changes):
        return None
    manifest = successor(former, replace(former, built_us=now_us, summary={**former.summary, "rows": {}, "hours": []}))
    publish(target, manifest)
    return manifest
