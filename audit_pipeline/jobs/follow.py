"""`follow`: the usage of the latest events, by Structured Streaming; the next `build` makes the results. Shell.

There are three queries, each for one kind of rows in the table usage: requests, partitions, and
intervals of level rollup. A row that is more than DELAY behind the newest row that a query has seen is
too late: Spark drops and counts it. Rows with a time in the future are left out before, because one of them would make
all others late. A micro-batch is added up by itself and published under its number: a repeated batch is already there.
"""

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.sql.streaming.query import StreamingQuery

from audit_pipeline.contract import contract
from audit_pipeline.errors import BadUseError
from audit_pipeline.ingest.client_config import PLAINTEXT, ClientProperties
from audit_pipeline.jobs.progress import BatchNews
from audit_pipeline.jobs.store import prepare, write_table
from audit_pipeline.reading.live import LIVE, LIVE_MANIFEST, LiveBatch, LiveManifest, publish_live, read_live
from audit_pipeline.reading.published import PROBE, remove_drafts
from audit_pipeline.results.frames import EventFrames, event_schema
from audit_pipeline.results.requested.usage import usage
from audit_pipeline.sources.catalogue import CLOCK_AHEAD_US
from audit_pipeline.sources.local_frame import local_frame
from audit_pipeline.sources.streams import stream_of
from audit_pipeline.spool.targets import SUFFIX, FolderTarget

log = logging.getLogger(__name__)

DELAY: Final = "10 minutes"
_CHECKPOINT: Final = "_checkpoint"
_BATCH: Final = r"[a-z]+-\d{9,}"
_ROWS: Final = re.compile(rf"usage/event_date=[^/]+/{_BATCH}-\d+{re.escape(SUFFIX)}")
_DRAFT: Final = re.compile(rf"{_BATCH}-usage|{PROBE}")
"""Names that batches create: anything else there belongs to other writers."""
_LOOK_S: Final = 0.2
_SKEWED: Final = "skewed"
_STATE: Final = "org.apache.spark.sql.execution.streaming.state"
_STREAMING: Final = {
    # The state of ten minutes may exceed the heap.
    "spark.sql.streaming.stateStore.providerClass": f"{_STATE}.RocksDBStateStoreProvider",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


AddUp = Callable[[DataFrame], DataFrame]
"""A function that converts a micro-batch to rows of the table usage."""


@dataclass(frozen=True, slots=True)
class FollowRequest:
    """Arguments of `follow`.

    `results` is the folder of the results. Without `interval_s` the job ends when it has read all existing events.
    """

    source: str
    results: Path
    interval_s: float | None = None
    client: ClientProperties = PLAINTEXT


def follow(spark: SparkSession, request: FollowRequest, stopped: Event, now_us: Callable[[], int]) -> LiveManifest:
    """Publish new usage, and return the published version.

    Raises BadUseError, OSError, and errors of Spark.
    """
    folder = request.results / LIVE
    target = FolderTarget(folder)
    target.make()
    with target.upkeep() as is_alone:
        if not is_alone:
            raise BadUseError(f"another process follows into {folder}: wait until it ends")
        for key, value in _STREAMING.items():
            spark.conf.set(key, value)
        prepare(spark, target)
        live = _Live(request, target, now_us)
        queries = [_Query("request", _requests), _Query("partition", _partitions), _Query("rollup", _intervals)]
        if request.interval_s is None:
            for query in queries:
                _attend([(query, query.begin(spark, live))], live, stopped)
        else:
            log.info(
                "following %s into %s, a batch every %g s; Ctrl-C ends it", request.source, folder, request.interval_s
            )
            _attend([(query, query.begin(spark, live)) for query in queries], live, stopped)
        return live.manifest


class _Live:
    """The manifest of published usage, which batches of several queries change."""

    def __init__(self, request: FollowRequest, target: FolderTarget, now_us: Callable[[], int]) -> None:
        self.request = request
        self._target = target
        self._now_us = now_us
        self._lock = Lock()
        self._news = BatchNews(now_us)
        found = read_live(target)
        if found is not None and found.source != request.source:
            raise BadUseError(
                f"{request.results / LIVE} follows {found.source}: give another --results, or delete that folder"
            )
        self.manifest = found or LiveManifest(request.source)
        self._remove_unpublished()

    def _remove_unpublished(self) -> None:
        """Remove the files of batches that were killed."""
        self._target.clean(lambda path: path == LIVE_MANIFEST)
        remove_drafts(self._target, _DRAFT)
        named = set(self.manifest.files)
        for path in [stored.path for stored in self._target.files("usage")]:
            if path not in named and _ROWS.fullmatch(path):
                self._target.delete(path)

    def put(self, query: str, number: int, frame: DataFrame, added_up: AddUp) -> None:
        if self.manifest.has(query, number):
            # Spark was killed before it recorded this batch. It still needs the rows, to update its state of known
            # rows.
            frame.write.format("noop").mode("overwrite").save()
            return
        # The rows are read more than once, and each read would change Spark's state.
        frame.persist()
        try:
            # After the last data comes an empty batch, which advances the watermark.
            batch = LiveBatch((), 0, self._now_us()) if frame.isEmpty() else self._write(query, number, added_up(frame))
        finally:
            frame.unpersist()
        self._publish(lambda manifest: manifest.with_batch(query, number, batch))
        self._news.published(batch.rows)

    def _write(self, query: str, number: int, frame: DataFrame) -> LiveBatch:
        folder = str(self.request.results / LIVE)
        written = write_table(frame, "usage", folder, f"{query}-{number:09d}")
        files = tuple(sorted(path for paths in written.files.values() for path in paths))
        return LiveBatch(files, written.rows, self._now_us())

    def record(self, query: str, number: int, late: int, skewed: int) -> None:
        """Record and log the late and skewed rows of a finished batch."""
        if late:
            log.warning("%d rows of %s came later than %s: the next build includes them", late, query, DELAY)
        if skewed:
            log.warning("%d rows of %s have a time in the future: the next build processes them", skewed, query)
        self._publish(lambda manifest: manifest.with_told(query, number, late, skewed))

    def _publish(self, change: Callable[[LiveManifest], LiveManifest]) -> None:
        with self._lock:
            changed = change(self.manifest).without_old(self._now_us())
            if changed != self.manifest:
                gone = set(self.manifest.files) - set(changed.files)
                publish_live(self._target, changed, sorted(gone))
                self.manifest = changed


@dataclass
class _Query:
    name: str
    frame: Callable[[SparkSession, FollowRequest], tuple[DataFrame, AddUp]]
    told: int = -1
    """The last batch whose progress was processed."""

    def begin(self, spark: SparkSession, live: _Live) -> StreamingQuery:
        stream, added_up = self.frame(spark, live.request)
        checkpoint = live.request.results / LIVE / _CHECKPOINT / self.name
        writer = stream.writeStream.queryName(self.name).option("checkpointLocation", checkpoint.absolute().as_uri())
        writer = writer.foreachBatch(lambda frame, number: live.put(self.name, number, frame, added_up))
        if live.request.interval_s is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{live.request.interval_s} seconds").start()

    def take_notice(self, query: StreamingQuery, live: _Live) -> None:
        for progress in query.recentProgress:
            # A progress report without a batch means that there is nothing new.
            if progress.batchId > self.told and "addBatch" in progress.durationMs:
                late = sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
                skewed = sum(row[_SKEWED] for row in progress.observedMetrics.values())
                live.record(self.name, progress.batchId, late, skewed)
                self.told = progress.batchId


def _attend(running: Iterable[tuple[_Query, StreamingQuery]], live: _Live, stopped: Event) -> None:
    """Wait until all queries have ended or `stopped` is set; a query that fails ends all."""
    queries = list(running)
    try:
        while all(query.isActive for _, query in queries) and not stopped.wait(_LOOK_S):
            for each, query in queries:
                each.take_notice(query, live)
    finally:
        for _, query in queries:
            query.stop()
    for each, query in queries:
        each.take_notice(query, live)
        error = query.exception()
        if error is not None:
            raise error


def _in_time(spark: SparkSession, request: FollowRequest, table: str) -> DataFrame:
    """Return the events that are not in the future, with the watermark; events in the future are counted."""
    found = stream_of(spark, request.source, table, request.client)
    is_skewed = F.unix_micros("ts") > F.col("seen_us") + CLOCK_AHEAD_US
    counted = found.observe(f"{table}-{_SKEWED}", F.count(F.when(is_skewed, 1)).alias(_SKEWED))
    return counted.where(~is_skewed).drop("seen_us").withWatermark("ts", DELAY)


def _once(frame: DataFrame, table: str) -> DataFrame:
    """Drop duplicates, which a topic may have. The key includes the time, so that Spark can expire this state."""
    return frame.dropDuplicates([*contract().tables[table].key, "ts"])


def _requests(spark: SparkSession, request: FollowRequest) -> tuple[DataFrame, AddUp]:
    def added_up(batch: DataFrame) -> DataFrame:
        return _added_up(batch.sparkSession, request=batch)

    return _once(_in_time(spark, request, "request"), "request"), added_up


def _partitions(spark: SparkSession, request: FollowRequest) -> tuple[DataFrame, AddUp]:
    """Return the partitions. Rows of version 1.0 do not tell their clients: these are unknown until the next build."""

    def added_up(batch: DataFrame) -> DataFrame:
        return _added_up(batch.sparkSession, partition=batch)

    return _once(_in_time(spark, request, "partition"), "partition"), added_up


def _intervals(spark: SparkSession, request: FollowRequest) -> tuple[DataFrame, AddUp]:
    def added_up(batch: DataFrame) -> DataFrame:
        return _added_up(batch.sparkSession, rollup=batch)

    return _once(_in_time(spark, request, "rollup"), "rollup"), added_up


def _added_up(spark: SparkSession, **frames: DataFrame) -> DataFrame:
    """Add up like `build`; tables that are not given are empty."""
    given = {
        table: frames[table] if table in frames else local_frame(spark, event_schema(table))
        for table in contract().tables
    }
    return usage(
        EventFrames(**{table: frame.withColumn("event_date", F.to_date("ts")) for table, frame in given.items()})
    )
