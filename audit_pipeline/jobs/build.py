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
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from audit_pipeline.contract import SEGMENT_MS
from audit_pipeline.errors import BadUseError, first_line
from audit_pipeline.hours import by_day, day_of_hour, hours_named, hours_of_day, named, shown, shown_days
from audit_pipeline.jobs.computing import (
    NO_STORM_FACTS,
    arrival_facts,
    costs,
    daily_results,
    facts,
    hourly_results,
    storm_facts,
    whole_results,
)
from audit_pipeline.jobs.days import (
    AskedDays,
    Notes,
    beside,
    days_to_compute,
    days_to_try,
    hours_to_build,
    note_of,
    recommended_mark,
    results_mark,
    what_if_mark,
)
from audit_pipeline.jobs.limits.recommending import INPUTS, recommended
from audit_pipeline.jobs.progress import Progress
from audit_pipeline.jobs.result_files import ResultFiles
from audit_pipeline.jobs.session import for_events, for_results
from audit_pipeline.jobs.store import prepare
from audit_pipeline.jobs.tried_days import PartOfSource, parts_of_day, what_if
from audit_pipeline.jobs.unchanged import (
    MADE_FROM,
    MARK,
    RECOMMENDED_FROM,
    are_recommended,
    made_from,
    published_again,
    without_dropped,
)
from audit_pipeline.reading.published import (
    OBJECTIVES,
    STATE_TABLE,
    WHOLE,
    Manifest,
    counted,
    publish,
    read_manifest,
    remove_unpublished,
    successor,
)
from audit_pipeline.results.clean import of_hours
from audit_pipeline.results.completeness import completeness
from audit_pipeline.results.coverage import coverage
from audit_pipeline.results.frames import result_schema
from audit_pipeline.results.requested.measured import with_clients
from audit_pipeline.results.settings import Settings
from audit_pipeline.results.storms.storm_bins import AFTER, BEFORE, storm_bins, stormy_seconds
from audit_pipeline.results.storms.storm_episodes import with_episode
from audit_pipeline.results.storms.storm_times import is_near, stormy_minutes
from audit_pipeline.results.tables import Kind, result_tables
from audit_pipeline.sources.catalogue import LOST, Hole, SetAside
from audit_pipeline.sources.landed import LandedSegments
from audit_pipeline.sources.local_frame import local_frame
from audit_pipeline.sources.source import EventSource
from audit_pipeline.sources.unknown_clients import has_unknown_clients
from audit_pipeline.spool.targets import Target, open_target

log = logging.getLogger(__name__)

_ROWS_AT_ONCE: Final = 20_000_000
"""Days are built together up to this number of event rows; the hours of a single day may have more."""
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
    """A request to build results. `first` and `last` are event-days; None is all. Times are microseconds since 1970.

    `recommends_daily`: the hours of a day that is not over change no recommended limit.
    """

    results: str
    settings: Settings
    now_us: int
    first: date | None = None
    last: date | None = None
    retention_days: int | None = None
    segment_ms: int = SEGMENT_MS
    recommends_daily: bool = False

    @property
    def settled_us(self) -> int:
        """Return the time before which all recorded events should have landed.

        A segment needs its own time, and as much again. A boot without an end and without a later event is open since
        then.
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
"""A function that creates the source from the state that the last scan has stored."""


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
    """Publish the former results again if nothing has changed.

    Returns None if there is something to compute. Raises OSError if a place is full or does not answer.
    """
    target = open_target(request.results)
    with target.upkeep() as is_alone:
        if not is_alone:
            return None
        return published_again(
            target,
            former,
            source,
            request.settings,
            request.asked,
            request.now_us,
            request.settled_us,
            is_daily=request.recommends_daily,
        )


class _Build:
    def __init__(self, spark: SparkSession, request: BuildRequest, target: Target, progress: Progress) -> None:
        prepare(spark, target)
        self._spark = spark
        self._request = request
        self._target = target
        self._progress = progress
        self._began = f"{datetime.fromtimestamp(request.now_us / 1_000_000, UTC):%Y%m%dT%H%M%S}"
        self._files = ResultFiles(spark, request.results, self._began, {}, {}, {})
        self._made_from = ""
        self._recommended_from: Mapping[str, Any] = {}
        self._sure: set[int] = set()
        """Hours that include everything that the last scan has found."""
        self._built: set[int] = set()
        """Hours whose facts were made."""

    def run(self, make_source: MakeSource) -> Manifest:
        former = read_manifest(self._target)
        sizes = remove_unpublished(self._target, former, self._request.now_us)
        files, sums = (former.files, former.sums) if former else ({}, {})
        self._files = ResultFiles(self._spark, self._request.results, self._began, files, sums, sizes)
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
        self._build_daily(days_to_compute(noted, settings), noted)
        self._try_limits(source, days_to_try(noted, self._built, source.lost, settings), noted)
        wrong = without_dropped(source.set_aside, asked)
        holes = source.holes(self._request.settled_us)
        self._build_whole(source, holes, wrong)
        self._recommend(source, former, noted, holes, wrong)
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
                with for_events(self._spark, source.rows_of(hours)):
                    self._write_facts(source, hours)
                self._write_hourly(hours)
                near = sorted({*hours, *others})
                with for_events(self._spark, source.rows_of(near, tables=("connection",))):
                    self._write_storms(source, near)
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
        self._files.write_hours(arrival_facts(events.connection, hours), hours)
        seconds = stormy_seconds(events.connection, self._request.settings.storms).persist()
        minutes = [row["minute"] for row in stormy_minutes(seconds).collect()]
        if minutes:
            connection, request = (
                frame.where(is_near(F.col("ts"), minutes)) for frame in (events.connection, events.request)
            )
            bins = storm_bins(seconds, connection, request).persist()
            self._files.write_hours(storm_facts(bins, request, hours), hours)
            bins.unpersist()
        else:
            self._files.write_hours(NO_STORM_FACTS, hours)
        seconds.unpersist()

    def _build_daily(self, days: Sequence[date], noted: dict[str, dict[str, Any]]) -> None:
        if days:
            self._progress.step(f"results of {shown_days(days)}", 0)
            stored = {table: self._files.stored(table, days) for table in ("usage", "latency_hist", "replica_hours")}
            settings = self._request.settings
            self._files.write_days(daily_results(stored, settings), days)
            # What was written is read, and not computed once more.
            stored["inventory_hours"] = self._files.stored("inventory_hours", days)
            self._files.write_days(costs(stored, settings), days)
            for day in days:
                noted[day.isoformat()]["settings"] = results_mark(settings)

    def _try_limits(self, source: EventSource, days: Sequence[date], noted: dict[str, dict[str, Any]]) -> None:
        """Replay the connections of these days under the limits to try."""
        text = self._request.settings.what_if
        if not days and "what_if" in self._files.files:
            return
        parts: list[PartOfSource] = []
        if text is not None:
            if not isinstance(source, LandedSegments):
                raise BadUseError("--what-if replays landed segments: give the folder or URI of segments as --source")
            self._progress.step(f"other limits on {shown_days(days)}", 0)
            parts = [part for day in days for part in parts_of_day(source.files(day), day)]
        self._files.write_days({"what_if": what_if(self._spark, parts, text or "")}, days)
        for day in days:
            noted[day.isoformat()]["what_if"] = what_if_mark(self._request.settings)

    def _build_whole(self, source: EventSource, found_holes: Sequence[Hole], wrong: Sequence[SetAside]) -> None:
        self._progress.step("results of all days", 0)
        if lost := len({each.path for each in wrong if each.reason == LOST}):
            log.warning("%d files were deleted before their days were built: quarantine lists them as lost", lost)
        tables = [name for name, table in result_tables().items() if table.kind is not Kind.WHOLE]
        stored = {name: self._files.stored(name) for name in tables}
        settled_us = self._request.settled_us
        self._made_from = made_from(self._request.settings, found_holes, wrong)
        holes = local_frame(self._spark, _HOLES, found_holes)
        apart = local_frame(self._spark, result_schema("quarantine"), wrong)
        covered = coverage(stored["heard_windows"], holes, stored["registrations"], settled_us)
        self._files.write_whole({"coverage": covered, "quarantine": apart if wrong else None})
        # What was written is read, and not computed once more.
        stored["coverage"] = self._files.stored("coverage")
        self._files.write_whole({"completeness": completeness(stored["coverage"], apart)})
        stored["completeness"] = self._files.stored("completeness")
        if self._files.has("storm_bins"):
            with for_results(self._spark, self._files.size_of(["storm_bins"])):
                stored["storm_rows"] = with_episode(stored["storm_bins"]).persist()
        self._files.write_whole(whole_results(stored, self._request.settings))
        if "storm_rows" in stored:
            stored["storm_rows"].unpersist()

    def _recommend(
        self,
        source: EventSource,
        former: Manifest | None,
        noted: Notes,
        holes: Sequence[Hole],
        wrong: Sequence[SetAside],
    ) -> None:
        """Write the recommended limits, which are tried on events that the source still has.

        With `recommends_daily`, the former ones stay if only hours of a day that is not over have changed.
        """
        stored = {name: self._files.stored(name) for name in INPUTS}
        clusters = [row.cluster_id for row in stored["coverage"].select("cluster_id").distinct().collect()]
        request, files = self._request, self._files.files
        mark = recommended_mark(
            files, noted, request.now_us, request.settings, holes, wrong, is_daily=request.recommends_daily
        )
        self._recommended_from = {MARK: mark, "clusters": sorted(clusters)}
        is_kept = former is not None and are_recommended(self._target, former, self._recommended_from)
        if request.recommends_daily and is_kept:
            return
        self._progress.step("recommended limits", 0)
        read: set[int] = set()

        def connections_of(hours: Collection[int]) -> DataFrame:
            read.update(hours)
            return source.events(self._spark, hours).connection

        for looks_left in reversed(range(_LOOKS_MAX)):
            try:
                with for_results(self._spark, self._files.size_of(INPUTS)):
                    self._files.write_whole(recommended(self._spark, stored, connections_of))
                return
            except (PySparkException, Py4JJavaError):
                if not looks_left or not source.scan_again(sorted(read)):
                    raise
                # As for facts: the next build adds what this scan may have found.
                self._sure.clear()

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
            ),
        )
        summary = {
            "rows": self._files.rows,
            "hours": named(self._built),
            "rows_per_s": self._progress.rows_per_s,
            "beside_s": self._progress.beside_s,
            **counted(self._target, manifest),
            MADE_FROM: self._made_from,
            RECOMMENDED_FROM: self._recommended_from,
            OBJECTIVES: [objective.name for objective in self._request.settings.objectives],
        }
        manifest = replace(manifest, summary=summary)
        publish(self._target, manifest)
        return manifest


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
