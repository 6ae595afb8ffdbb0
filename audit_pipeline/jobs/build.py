"""`build`: from events to published results. Shell: it has the session, the clock, and the order of the steps.

    scan the source -> days with new events -> facts of these days -> daily results of these days -> whole results
    -> publish

The results depend on events and settings only, so that a killed build can be repeated, and builds may run in any order.
No file counts before the manifest names it.
"""

import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from audit_pipeline.contract import SEGMENT_MS
from audit_pipeline.errors import BadUseError, first_line
from audit_pipeline.jobs.computing import Frames, daily_results, facts, facts_of_facts, whole_results
from audit_pipeline.jobs.days import AskedDays, days_to_build, days_to_compute, note_of, results_mark
from audit_pipeline.jobs.progress import Progress
from audit_pipeline.jobs.store import prepare, write_table
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
from audit_pipeline.results.clean import of_days
from audit_pipeline.results.frames import result_schema
from audit_pipeline.results.requested.measured import with_clients
from audit_pipeline.results.settings import Settings
from audit_pipeline.results.storms.storm_episodes import with_episode
from audit_pipeline.results.tables import Kind, result_tables
from audit_pipeline.sources.catalogue import LOST
from audit_pipeline.sources.landed import LandedSegments
from audit_pipeline.sources.local_frame import local_frame
from audit_pipeline.sources.parquet_files import WantedFile, frame_of
from audit_pipeline.sources.source import EventSource
from audit_pipeline.sources.unknown_clients import has_unknown_clients
from audit_pipeline.spool.targets import Target, open_target

log = logging.getLogger(__name__)

_ROWS_AT_ONCE: Final = 20_000_000
"""Days are built together up to this number of event rows; a single day may have more."""
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
        now = datetime.fromtimestamp(request.now_us / 1_000_000, UTC)
        self._version = f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        self._files: dict[str, dict[str, tuple[str, ...]]] = {}
        self._rows: dict[str, int] = {}
        self._made_from = ""
        self._sure: set[date] = set()
        """Days that include everything that the last scan has found."""
        self._left_alone: set[date] = set()
        """Days whose files were deleted during this build: their results stay as they were."""

    def run(self, make_source: MakeSource) -> Manifest:
        former = read_manifest(self._target)
        remove_unpublished(self._target, former, self._request.now_us)
        self._files = {table: dict(by_day) for table, by_day in former.files.items()} if former else {}
        source = make_source(former.state(self._target) if former else None)
        pending = {date.fromisoformat(day) for day in former.pending} if former else set()
        noted = {day: dict(told) for day, told in former.days.items()} if former else {}
        settings, asked = self._request.settings, self._request.asked
        days = days_to_build(source.touched | pending, source.lost, noted, asked, settings)
        self._build_days(source, days)
        for day in [day for day in days if day not in self._left_alone]:
            new_rows, told = source.rows_of([day], only_new=True), noted.get(day.isoformat())
            noted[day.isoformat()] = note_of(told, day, self._request.now_us, new_rows, settings)
        dropped = self._drop_old(noted, asked)
        self._build_daily(days_to_compute(noted, settings), noted)
        self._build_whole(source, asked)
        # Including days beyond the retention: it may become longer.
        left = (source.touched | pending | dropped) - self._sure
        return self._publish(former, source, noted, [day.isoformat() for day in sorted(left)])

    def _build_days(self, source: EventSource, days: Sequence[date]) -> None:
        """Build the facts of these days."""
        self._progress.begin(source.rows_of(days))
        for together in _portions(days, source):
            rows = source.rows_of(together)
            self._progress.step(f"events of {_shown(together)}", rows)
            self._build_facts(source, together)
            self._progress.done(rows)

    def _build_facts(self, source: EventSource, days: Sequence[date]) -> None:
        before = {table: dict(by_day) for table, by_day in self._files.items()}
        for looks_left in reversed(range(_LOOKS_MAX)):
            try:
                events = of_days(source.events(self._spark, days), days)
                if has_unknown_clients(events.partition):
                    events = with_clients(events)
                self._write(facts(events, self._request.settings), days)
                stored = {"storm_bins": self._stored("storm_bins", days)}
                self._write(facts_of_facts(events, stored), days)
                self._sure.update(days)
                source.settle(days)
                return
            except (PySparkException, Py4JJavaError) as error:
                # A file with a valid footer may have a corrupt page, and another process may compact meanwhile.
                if not looks_left or not source.scan_again(days):
                    raise
                # The scan may have found more events of days that are built already: the next build adds them.
                self._sure.clear()
                log.warning(
                    "some events of %s could not be read; all of them are read again: %s",
                    _shown(days),
                    first_line(error),
                )
                gone = source.lost.intersection(days)
                self._leave_alone(gone, before)
                days = [day for day in days if day not in gone]
                if not days:
                    return

    def _leave_alone(self, days: Collection[date], before: Mapping[str, Mapping[str, tuple[str, ...]]]) -> None:
        """Restore the files of these days: some tables may have been written before another one failed."""
        self._left_alone.update(days)
        for table, by_day in self._files.items():
            for day in (each.isoformat() for each in days):
                by_day.pop(day, None)
                if day in before.get(table, {}):
                    by_day[day] = before[table][day]

    def _build_daily(self, days: Sequence[date], noted: dict[str, dict[str, Any]]) -> None:
        if days:
            self._progress.step(f"results of {_shown(days)}", 0)
            stored = {table: self._stored(table, days) for table in ("usage", "latency_hist", "inventory_hours")}
            self._write(daily_results(stored, self._request.settings), days)
            for day in days:
                noted[day.isoformat()]["settings"] = results_mark(self._request.settings)

    def _build_whole(self, source: EventSource, asked: AskedDays) -> None:
        self._progress.step("results of all days", 0)
        wrong = without_dropped(source.set_aside, asked)
        if lost := len({each.path for each in wrong if each.reason == LOST}):
            log.warning("%d files were deleted before their days were built: quarantine lists them as lost", lost)
        stored = {name: self._stored(name) for name, table in result_tables().items() if table.kind is not Kind.WHOLE}
        settled_us = self._request.settled_us
        found_holes = source.holes(settled_us)
        self._made_from = made_from(self._request.settings, found_holes, wrong)
        holes = local_frame(self._spark, _HOLES, found_holes)
        apart = local_frame(self._spark, result_schema("quarantine"), wrong)
        stored["storm_rows"] = with_episode(stored["storm_bins"]).persist()
        self._write(whole_results(stored, holes, apart, self._request.settings, settled_us), [])
        stored["storm_rows"].unpersist()

    def _stored(self, table: str, days: Iterable[date] | None = None) -> DataFrame:
        """Return the stored rows of these days, or of all."""
        by_day = self._files.get(table, {})
        wanted = by_day if days is None else [day.isoformat() for day in days]
        files = [WantedFile(path, 0) for day in sorted(wanted) for path in by_day.get(day, ())]
        return frame_of(self._spark, self._request.results, files, result_schema(table))

    def _write(self, frames: Frames, days: Collection[date]) -> None:
        """Write each frame as files of this version, which replace the files of these days."""
        for name, frame in frames.items():
            self._spark.sparkContext.setJobDescription(name)
            table = write_table(frame, name, self._request.results, self._version)
            log.debug("%s: %d rows in %d files", name, table.rows, sum(map(len, table.files.values())))
            by_day = self._files.setdefault(name, {})
            for replaced in [day.isoformat() for day in days] if result_tables()[name].is_by_day else [WHOLE]:
                by_day.pop(replaced, None)
            by_day.update(table.files)
            self._rows[name] = self._rows.get(name, 0) + table.rows

    def _drop_old(self, noted: dict[str, dict[str, Any]], asked: AskedDays) -> set[date]:
        dropped = {day for day in map(date.fromisoformat, noted) if asked.drops(day)}
        for day in dropped:
            del noted[day.isoformat()]
            for by_day in self._files.values():
                by_day.pop(day.isoformat(), None)
        return dropped

    def _publish(
        self,
        former: Manifest | None,
        source: EventSource,
        noted: Mapping[str, Mapping[str, Any]],
        pending: Sequence[str],
    ) -> Manifest:
        path = f"{STATE_TABLE}/{self._version}.json"
        self._target.put(path, source.remembered())
        self._files[STATE_TABLE] = {WHOLE: (path,)}
        manifest = successor(
            former,
            Manifest(
                version=self._version,
                built_us=self._request.now_us,
                files=self._files,
                days=noted,
                pending=tuple(pending),
                summary={
                    "rows": self._rows,
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
        (row,) = self._stored("completeness").agg(*(F.sum(name).alias(name) for name in names)).collect()
        aside = self._stored("quarantine").where(F.col("reason") != "duplicate")
        return {**{name: row[name] or 0 for name in names}, "quarantinedFiles": aside.select("path").distinct().count()}


def _portions(days: Sequence[date], source: EventSource) -> Iterator[list[date]]:
    """Yield the days in order, in groups of as many as fit into one portion."""
    taken: list[date] = []
    rows = 0
    for day in days:
        count = source.rows_of([day])
        if taken and rows + count > _ROWS_AT_ONCE:
            yield taken
            taken, rows = [], 0
        taken.append(day)
        rows += count
    if taken:
        yield taken


def _shown(days: Sequence[date]) -> str:
    return f"{days[0]}" if len(days) == 1 else f"{len(days)} days from {days[0]} to {days[-1]}"
