"""Whether a build would publish the same results again: then it needs no Spark. Shell."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import date
from hashlib import sha256
from typing import Final

from audit_pipeline.errors import BadUseError
from audit_pipeline.hours import hours_named
from audit_pipeline.jobs.days import AskedDays, days_to_compute, hours_to_build
from audit_pipeline.reading.published import Manifest, publish, require_files, successor
from audit_pipeline.results.settings import Settings
from audit_pipeline.results.tables import result_tables
from audit_pipeline.sources.catalogue import LOST, Hole, SetAside
from audit_pipeline.sources.landed import LandedSegments
from audit_pipeline.spool.targets import Target

MADE_FROM: Final = "madeFrom"
"""Key of the summary: a digest of everything that whole results are made from, except for facts and daily results."""


def made_from(settings: Settings, holes: Iterable[Hole], wrong: Iterable[SetAside]) -> str:
    """Return that digest."""
    parts = (asdict(settings), sorted(map(repr, holes)), sorted(map(repr, wrong)))
    return sha256(repr(parts).encode()).hexdigest()


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
) -> Manifest | None:
    """Publish the former results as those of now if nothing has changed; None if there is something to compute.

    Events that were too young to be judged by the former build are something to compute, and so are lost files of
    whole results.
    """
    try:
        require_files(target, former, [name for name, table in result_tables().items() if not table.is_by_day])
    except BadUseError:
        return None
    noted = {day: dict(told) for day, told in former.days.items()}
    pending = hours_named(former.pending)
    changes = (
        former.state(target) != source.remembered(),
        hours_to_build(source.touched | pending, source.lost, noted, asked, settings),
        days_to_compute(noted, settings),
        any(asked.drops(date.fromisoformat(day)) for day in noted),
        source.newest_us >= former.built_us - (now_us - settled_us),
        former.summary.get(MADE_FROM)
        != made_from(settings, source.holes(settled_us), without_dropped(source.set_aside, asked)),
    )
    if any(changes):
        return None
    manifest = successor(former, replace(former, built_us=now_us, summary={**former.summary, "rows": {}, "hours": []}))
    publish(target, manifest)
    return manifest
