"""`build`: from events to published results. Shell: it has the session, the clock, and the order of the steps.

    scan the source -> hours with new events -> facts and results of these hours -> results of their days
    -> whole results -> publish

The results depend on events and settings only, so that a killed build can be repeated, and builds may run in any order.
No file counts before the manifest names it.
"""

import logging
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from audit_pipeline.contract import SEGMENT_MS
from audit_pipeline.errors import BadUseError, first_line
from audit_pipeline.hours import by_day, day_of_hour, hours_named, hours_of_day, named, shown, shown_days
from audit_pipeline.jobs.computing import daily_results, facts, hourly_results, storm_facts, whole_results
from audit_pipeline.jobs.days import AskedDays, beside, days_to_compute, hours_to_build, note_of, results_mark
from audit_pipeline.jobs.progress import Progress
from audit_pipeline.jobs.result_files import ResultFiles
from audit_pipeline.jobs.session import for_few_rows
from audit_pipeline.jobs.store import prepare
from audit_pipeline.jobs.unchanged import MADE_FROM, made_from, published_again, without_dropped
from audit_pipeline.reading.published import (
    OBJECTIVES,
    STATE_TABLE,
    WHOLE,
    Manifest,
    publish,
    read_manifest,
    remove_unpublished,
    successor,
)
from audit_pipeline.results.clean import of_hours
from audit_pipeline.results.frames import result_schema
from audit_pipeline.results.requested.measured import with_clients
from audit_pipeline.results.settings import Settings
from audit_pipeline.results.storms.storm_bins import AFTER, BEFORE, storm_bins
from audit_pipeline.results.storms.storm_episodes import with_episode
from audit_pipeline.results.tables import Kind, result_tables
from audit_pipeline.sources.catalogue import LOST
from audit_pipeline.sources.landed import LandedSegments
from audit_pipeline.sources.local_frame import local_frame
from audit_pipeline.sources.source import EventSource
from audit_pipeline.sources.unknown_clients import has_unknown_clients
from audit_pipeline.spool.targets import Target, open_target

log = logging.getLogger(__name__)

_ROWS_AT_ONCE: Final = 20_000_000
"""Days are built together up to this number of event rows; the hours of a single day may have more."""
FEW_ROWS: Final = 1_000_000
"""A build of fewer rows of events is short for Java, and facts of fewer rows are few for Spark."""
_DISK_IS_FULL: Final = "No space left on device"
_HOLES: Final = (
    StructType()
    .add("at_us", LongType(), nullable=False)
    .add("cluster_id", StringType(), nullable=False)
    .add("broker_id", IntegerType(), nullable=False)
    .add("holes", LongType(), nullable=False)
    .add("open_since_us", LongType())
)
_LOOKS_MAX: Final = 5
"""How often a source is scanned again after reading it has failed."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What to build. `first` and `last` are event-days; None is all. Times are microseconds since 1970."""

    results: str
    settings: Settings
    now_us: int
    first: date | None = None
    last: date | None = None
    retention_days: int | None = None
    segment_ms: int = SEGMENT_MS

    @property
    def settled_us(self) -> int:
        """What brokers recorded before this time should have landed: a segment needs its own time, and as much again.

        A boot without an end and without a later event is open since then.
        """
        return self.now_us - 2 * self.segment_ms * 1000

    @property
    def asked(self) -> AskedDays:
        oldest = None
        if self.retention_days is not None:
            today = datetime.fromtimestamp(self.now_us / 1_000_000, UTC).date()
            oldest = today - timedelta(days=self.retention_days)
        return AskedDays(self.first, self.last, oldest)


MakeSource = Callable[[bytes | None], EventSource]
"""Creates the source from the state that the last scan has stored."""


def build(spark: SparkSession, request: BuildRequest, make_source: MakeSource, progress: Progress) -> Manifest:
    """Build and publish the results; return the published manifest.

    Raises BadUseError if another build is writing the same results, OSError if a place is full or does not answer.
    """
    target = open_target(request.results)
    target.make()
    with target.upkeep() as is_alone:
        if not is_alone:
            raise BadUseError(f"another build is writing {request.results}: wait until it ends")
        try:
            return _Build(spark, request, target, progress).run(make_source)
        except BaseException as error:
            # A full disk would stay full. The next build removes what Spark still writes.
            with suppress(OSError, BadUseError):
                remove_unpublished(target, read_manifest(target), request.now_us)
            if isinstance(error, PySparkException | Py4JJavaError) and _DISK_IS_FULL in str(error):
                raise OSError(
                    f"a disk is full, that of {request.results} or that of Spark's own files (SPARK_LOCAL_DIRS, "
                    "else /tmp). Written files were removed, and nothing was published. Free some space and build "
                    "again"
                ) from None
            raise


def build_without_spark(request: BuildRequest, source: LandedSegments, former: Manifest) -> Manifest | None:
    """Publish the former results again if nothing has changed; None if there is something to compute, or who computes.

    Raises OSError if a place is full or does not answer.
    """
    target = open_target(request.results)
    with target.upkeep() as is_alone:
        if not is_alone:
            return None
        return published_again(
            target, former, source, request.settings, request.asked, request.now_us, request.settled_us
        )


class _Build:
    def __init__(self, spark: SparkSession, request: BuildRequest, target: Target, progress: Progress) -> None:
        prepare(spark, target)
        self._spark = spark
        self._request = request
        self._target = target
        self._progress = progress
        self._began = f"{datetime.fromtimestamp(request.now_us / 1_000_000, UTC):%Y%m%dT%H%M%S}"
        self._files = ResultFiles(spark, request.results, self._began, {}, {})
        self._made_from = ""
        self._sure: set[int] = set()
        """Hours that include everything that the last scan has found."""
        self._built: set[int] = set()
        """Hours whose facts were made."""

    def run(self, make_source: MakeSource) -> Manifest:
        former = read_manifest(self._target)
        remove_unpublished(self._target, former, self._request.now_us)
        files, sums = (former.files, former.sums) if former else ({}, {})
        self._files = ResultFiles(self._spark, self._request.results, self._began, files, sums)
        source = make_source(former.state(self._target) if former else None)
        pending = hours_named(former.pending) if former else set()
        noted = {day: dict(told) for day, told in former.days.items()} if former else {}
        settings, asked = self._request.settings, self._request.asked
        hours = hours_to_build(source.touched | pending, source.lost, noted, asked, settings)
        others = {hour for hour in beside(hours) - source.lost if source.rows_of([hour])}
        self._build_hours(source, hours, {hour for hour in others if asked.has(day_of_hour(hour))})
        for day, built in by_day(self._built).items():
            new_rows, told = source.rows_of(built, only_new=True), noted.get(day.isoformat())
            noted[day.isoformat()] = note_of(told, day, self._request.now_us, new_rows, settings)
        dropped = self._drop_old(noted, asked)
        known = [hour for day in noted for hour in hours_of_day(date.fromisoformat(day))]
        with for_few_rows(self._spark, is_wanted=source.rows_of(known) < FEW_ROWS):
            self._build_daily(days_to_compute(noted, settings), noted)
            self._build_whole(source, asked)
        # Including hours beyond the retention: it may become longer.
        left = (source.touched | pending | dropped) - self._sure
        left |= {hour for hour in others if not asked.has(day_of_hour(hour))}
        return self._publish(former, source, noted, named(left))

    def _build_hours(self, source: EventSource, hours: Sequence[int], others: Collection[int]) -> None:
        """Build the facts of these hours; of the `others` beside them only those of storms."""
        self._progress.begin(source.rows_of(hours))
        for together in _portions(hours, source):
            rows = source.rows_of(together)
            self._progress.step(f"events of {shown(together)}", rows)
            self._build_facts(source, together, sorted(beside(together).intersection(others)))
            self._progress.done(rows)

    def _build_facts(self, source: EventSource, hours: Sequence[int], others: Collection[int]) -> None:
        before = self._files.copy()
        for looks_left in reversed(range(_LOOKS_MAX)):
            try:
                self._write_facts(source, hours)
                with for_few_rows(self._spark, is_wanted=source.rows_of(hours) < FEW_ROWS):
                    self._write_hourly(hours)
                    self._write_storms(source, sorted({*hours, *others}))
                self._sure.update(hours)
                self._built.update(hours)
                source.settle(hours)
                return
            except (PySparkException, Py4JJavaError) as error:
                # A file with a valid footer may have a corrupt page, and another process may compact meanwhile.
                if not looks_left or not source.scan_again([*hours, *beside(hours)]):
                    raise
                # The scan may have found more events of hours that are built already: the next build adds them.
                self._sure.clear()
                log.warning(
                    "some events of %s could not be read; all of them are read again: %s",
                    shown(hours),
                    first_line(error),
                )
                # Some tables may have been written before another one failed.
                self._files.restore(before)
                # Their files were deleted during this build: their results stay as they were.
                hours = [hour for hour in hours if hour not in source.lost]
                others = [hour for hour in others if hour not in source.lost]
                if not hours:
                    return

    def _write_facts(self, source: EventSource, hours: Collection[int]) -> None:
        events = of_hours(source.events(self._spark, hours), hours)
        if has_unknown_clients(events.partition):
            events = with_clients(events)
        self._files.write_hours(facts(events), hours)

    def _write_hourly(self, hours: Collection[int]) -> None:
        stored = {table: self._files.stored_hours(table, hours) for table in ("usage", "latency_hist")}
        self._files.write_hours(hourly_results(stored), hours)

    def _write_storms(self, source: EventSource, hours: Collection[int]) -> None:
        """Write the facts of storms: events shortly before and after each hour may be of a storm in it."""
        around = source.events(self._spark, {*hours, *beside(hours)})
        events = of_hours(around, hours, BEFORE, AFTER)
        bins = storm_bins(events.connection, events.request, self._request.settings.storms).persist()
        self._files.write_hours(storm_facts(bins, events.request, hours), hours)
        bins.unpersist()

    def _build_daily(self, days: Sequence[date], noted: dict[str, dict[str, Any]]) -> None:
        if days:
            self._progress.step(f"results of {shown_days(days)}", 0)
            stored = {table: self._files.stored(table, days) for table in ("usage", "latency_hist", "replica_hours")}
            self._files.write_days(daily_results(stored, self._request.settings), days)
            for day in days:
                noted[day.isoformat()]["settings"] = results_mark(self._request.settings)

    def _build_whole(self, source: EventSource, asked: AskedDays) -> None:
        self._progress.step("results of all days", 0)
        wrong = without_dropped(source.set_aside, asked)
        if lost := len({each.path for each in wrong if each.reason == LOST}):
            log.warning("%d files were deleted before their days were built: quarantine lists them as lost", lost)
        tables = [name for name, table in result_tables().items() if table.kind is not Kind.WHOLE]
        stored = {name: self._files.stored(name) for name in tables}
        settled_us = self._request.settled_us
        found_holes = source.holes(settled_us)
        self._made_from = made_from(self._request.settings, found_holes, wrong)
        holes = local_frame(self._spark, _HOLES, found_holes)
        apart = local_frame(self._spark, result_schema("quarantine"), wrong)
        stored["storm_rows"] = with_episode(stored["storm_bins"]).persist()
        self._files.write_whole(whole_results(stored, holes, apart, self._request.settings, settled_us))
        stored["storm_rows"].unpersist()

    def _drop_old(self, noted: dict[str, dict[str, Any]], asked: AskedDays) -> set[int]:
        dropped = {day for day in map(date.fromisoformat, noted) if asked.drops(day)}
        for day in dropped:
            del noted[day.isoformat()]
            self._files.drop(day)
        return {hour for day in dropped for hour in hours_of_day(day)}

    def _publish(
        self,
        former: Manifest | None,
        source: EventSource,
        noted: Mapping[str, Mapping[str, Any]],
        pending: Sequence[str],
    ) -> Manifest:
        version = f"{self._began}-{secrets.token_hex(4)}"
        path = f"{STATE_TABLE}/{version}.state"
        self._target.put(path, source.remembered())
        manifest = successor(
            former,
            Manifest(
                version=version,
                built_us=self._request.now_us,
                files={**self._files.files, STATE_TABLE: {WHOLE: (path,)}},
                days=noted,
                pending=tuple(pending),
                sums=self._files.sums,
                summary={
                    "rows": self._files.rows,
                    "hours": named(self._built),
                    "rows_per_s": self._progress.rows_per_s,
                    "beside_s": self._progress.beside_s,
                    **self._counted(),
                    MADE_FROM: self._made_from,
                    OBJECTIVES: [objective.name for objective in self._request.settings.objectives],
                },
            ),
        )
        publish(self._target, manifest)
        return manifest

    def _counted(self) -> dict[str, int]:
        """Count what the log has and what it lacks, over all days; it is complete if the last three numbers are 0.

        quarantinedFiles counts files with anything set aside, including files whose day is unknown.
        """
        names = ("events", "missing", "holes")
        (row,) = self._files.stored("completeness").agg(*(F.sum(name).alias(name) for name in names)).collect()
        aside = self._files.stored("quarantine").where(F.col("reason") != "duplicate")
        return {**{name: row[name] or 0 for name in names}, "quarantinedFiles": aside.select("path").distinct().count()}


def _portions(hours: Sequence[int], source: EventSource) -> Iterator[list[int]]:
    """Yield the hours in order, in groups of as many days as fit into one portion."""
    taken: list[int] = []
    rows = 0
    for of_day in by_day(hours).values():
        count = source.rows_of(of_day)
        if taken and rows + count > _ROWS_AT_ONCE:
            yield taken
            taken, rows = [], 0
        taken += of_day
        rows += count
    if taken:
        yield taken
