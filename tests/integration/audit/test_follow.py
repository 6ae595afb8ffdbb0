"""`follow` shows new events once. It counts late events, which only the results of `build` contain."""

from collections.abc import Iterable
from pathlib import Path
from threading import Event
from time import monotonic, time_ns
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyarrow import dataset
from pyspark.sql import SparkSession

from audit_pipeline.__main__ import main
from audit_pipeline.errors import BadUseError
from audit_pipeline.ingest.audit_topic import TopicPlace
from audit_pipeline.ingest.kafka_events import KafkaEvents
from audit_pipeline.ingest.land import land
from audit_pipeline.jobs.build import BuildRequest, build
from audit_pipeline.jobs.follow import FollowRequest, follow
from audit_pipeline.jobs.progress import Progress
from audit_pipeline.jobs.store import write_table
from audit_pipeline.reading.live import LIVE, LiveManifest, read_live
from audit_pipeline.reading.published import read_manifest, result_schema
from audit_pipeline.results.clean import of_hours
from audit_pipeline.results.requested.usage import usage
from audit_pipeline.results.settings import Settings
from audit_pipeline.results.tables import result_tables
from audit_pipeline.sources.landed import LandedSegments
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.publish import PublishedNumbers, publish
from broker_runtime.storage.disk.filesystem import OsFileSystem
from tests.support.audit.audit import AuditBench
from tests.support.obtain.spark_kafka import spark_kafka_libs
from tests.support.processes.broker_process import BrokerProcess

pytestmark = pytest.mark.full

QUERIES = ("request", "partition", "rollup")
EACH = 6
"""Produce requests in a minute; one more request of another kind follows."""

Rows = dict[tuple[Any, ...], tuple[int, ...]]


class Broker:
    """The audit log of a broker, from 2023-11-14 22:13:20 on, and its lander."""

    def __init__(self, folder: Path, boot_id: str, **config: str) -> None:
        self._spools = folder / f"spools-{boot_id}"
        self._segments = FolderTarget(folder / "segments")
        self.bench = AuditBench(OsFileSystem(), self._spools, boot_id, segment_ms="120000", **config)

    def work(self, minutes: int) -> None:
        for _ in range(minutes):
            for number in range(EACH):
                self.bench.produce("orders", number % 3)
            self.bench.request()
            self.bench.timers.advance(60)

    def stop(self) -> None:
        self.bench.log.close()
        land(self._spools, self._segments)


def followed(spark: SparkSession, folder: Path, source: str | None = None) -> LiveManifest:
    request = FollowRequest(source or str(folder / "segments"), folder / "results")
    return follow(spark, request, Event(), lambda: time_ns() // 1000)


def live_rows(folder: Path, live: LiveManifest) -> Rows:
    return added_up(folder / "results" / LIVE, live.files)


def added_up(root: Path, files: Iterable[str]) -> Rows:
    """Rows of the table usage by key, with the sums of the other columns."""
    table, schema = result_tables()["usage"], result_schema("usage")
    sums = [field.name for field in table.fields if field.name not in (*table.key, "last_moved")]
    rows = dataset.dataset(list(files), schema=schema, format="parquet", filesystem=FolderTarget(root).file_system)
    added = rows.to_table().group_by(list(table.key)).aggregate([(name, "sum") for name in sums])
    return {
        tuple(row[name] for name in table.key): tuple(row[f"{name}_sum"] for name in sums) for row in added.to_pylist()
    }


def built_rows(spark: SparkSession, folder: Path) -> Rows:
    segments, results, now_us = str(folder / "segments"), folder / "results", time_ns() // 1000
    request = BuildRequest(str(results), Settings(), now_us)
    build(spark, request, lambda remembered: LandedSegments([segments], remembered, now_us), Progress(monotonic))
    manifest = read_manifest(FolderTarget(results))
    assert manifest is not None
    return added_up(results, manifest.of("usage"))


def computed(spark: SparkSession, folder: Path) -> Rows:
    """Compute what `build` makes of the files, without publishing it."""
    source = LandedSegments([str(folder / "segments")], None, time_ns() // 1000)
    frame = usage(of_hours(source.events(spark, source.touched), source.touched))
    written = write_table(frame, "usage", str(folder / "expected"), "1")
    return added_up(folder / "expected", [path for paths in written.files.values() for path in paths])


def forget_last_commits(folder: Path) -> None:
    """Delete the last commits, as if Spark was killed after it published a batch and before it recorded that."""
    for query in QUERIES:
        commits = folder / "results" / LIVE / "_checkpoint" / query / "commits"
        last = max((path for path in commits.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def test_follow_shows_new_events_once_and_late_events_are_counted_and_built(
    spark: SparkSession, tmp_path: Path
) -> None:
    for boot_id, level in (("0001", "full"), ("0002", "rollup")):
        broker = Broker(tmp_path, boot_id, level=level)
        broker.work(30)
        broker.stop()
    live = followed(spark, tmp_path)
    assert (set(live.late.values()), set(live.skewed.values())) == ({0}, {0})
    first = live_rows(tmp_path, live)
    requests = sum(sums[0] for key, sums in first.items() if key[result_tables()["usage"].key.index("topic")] is None)
    assert requests == 2 * 30 * (EACH + 1)

    forget_last_commits(tmp_path)
    late = Broker(tmp_path, "0003")
    late.work(5)
    late.stop()
    live = followed(spark, tmp_path)
    assert live.late == {"request": 5 * (EACH + 1), "partition": 5 * EACH, "rollup": 0}
    assert live_rows(tmp_path, live) == first
    assert followed(spark, tmp_path).late == live.late

    built = built_rows(spark, tmp_path)
    assert {key: sums for key, sums in built.items() if first.get(key) != sums}.keys() <= first.keys()
    requests = sum(sums[0] for key, sums in built.items() if key[result_tables()["usage"].key.index("topic")] is None)
    assert requests == (2 * 30 + 5) * (EACH + 1)
    with pytest.raises(BadUseError, match="give another --results, or delete that folder"):
        followed(spark, tmp_path, str(tmp_path / "others"))


def test_the_topic_is_followed_as_the_files_are(spark: SparkSession, tmp_path: Path) -> None:
    spark_kafka_libs()
    broker = Broker(tmp_path, "0001")
    broker.work(5)
    broker.stop()
    segments = FolderTarget(tmp_path / "segments")
    with BrokerProcess() as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        admin.create_topics([NewTopic("audit", 2, 1, config={"retention.ms": "-1"})])["audit"].result(60)
        source = f"kafka:{process.bootstrap}/audit"
        topic = KafkaEvents(TopicPlace.of(source))
        for _ in range(2):
            # Publish twice, as after an interrupted first attempt.
            publish(segments, topic, PublishedNumbers(), time_ns() // 1_000_000)
        assert main(["follow", "--source", source, "--results", str(tmp_path / "results")], Event()) == 0
    live = read_live(FolderTarget(tmp_path / "results" / LIVE))
    assert live is not None
    assert live_rows(tmp_path, live) == computed(spark, tmp_path)
    assert set(live.late.values()) == {0}
