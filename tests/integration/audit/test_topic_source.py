"""Results from the audit topic equal, to the last digit, results from the files that were published to it."""

from collections.abc import Iterator
from pathlib import Path
from time import time_ns
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from audit_pipeline.ingest.audit_topic import TopicPlace
from audit_pipeline.ingest.kafka_events import KafkaEvents
from audit_pipeline.jobs.computing import facts
from audit_pipeline.jobs.store import prepare, write_table
from audit_pipeline.reading.published import Manifest, result_schema, table_of
from audit_pipeline.results.clean import of_hours
from audit_pipeline.sources.named import named_source
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.publish import publish, published_numbers
from tests.support.audit.audit_weeks.week import Week, write_week
from tests.support.obtain.spark_kafka import spark_kafka_libs
from tests.support.processes.broker_process import BrokerProcess

pytestmark = pytest.mark.full

WEEK = Week(
    days=1, clusters=1, segments=5, events=400, topics=2, principals=4, spoils=("skewed", "hole", "late", "gap")
)

PARTITIONS = 3
FOR_EVER = {"retention.ms": "-1"}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    spark_kafka_libs()
    with BrokerProcess(properties={"auto.create.topics.enable": "false"}) as process:
        yield process


def source_of(broker: BrokerProcess, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=FOR_EVER)])[topic].result(60)
    return f"kafka:{broker.bootstrap}/{topic}"


def now_ms() -> int:
    return time_ns() // 1_000_000


def publish_all(folder: Path, source: str) -> None:
    target, topic = FolderTarget(folder), KafkaEvents(TopicPlace.of(source))
    assert publish(target, topic, published_numbers(target, topic), now_ms()).problems == ()


class torn:  # noqa: N801 - a topic
    """Fails in the middle of a segment."""

    def __init__(self, topic: KafkaEvents, takes: int) -> None:
        self._topic = topic
        self._takes = takes
        self.ends, self.flush = topic.ends, topic.flush

    @property
    def acknowledged(self) -> int:
        return self._topic.acknowledged

    def put(self, records: Any) -> None:
        kept = list(records)[: self._takes]
        self._topic.put(kept)
        self._takes -= len(kept)
        if not self._takes:
            self._topic.flush()
            raise OSError("the broker is gone")


def facts_of(spark: SparkSession, source: str, written: Path) -> dict[str, list[str]]:
    """Return the input of all results: facts, holes, and files that were set aside."""
    found = named_source(spark, [source], None, WEEK.now_us)
    hours = found.touched
    told = {
        "hours": sorted(map(str, hours)),
        "holes": list(map(str, found.holes(WEEK.now_us))),
        "apart": list(map(str, found.set_aside)),
    }
    prepare(spark, FolderTarget(written))
    for name, frame in facts(of_hours(found.events(spark, hours), hours)).items():
        files = write_table(frame, name, str(written), "1").files
        manifest = Manifest("1", 0, {name: files})
        rows = table_of(FolderTarget(written), manifest, name, result_schema(name)).to_table()
        told[name] = sorted(map(str, rows.to_pylist()))
    return told


def test_results_from_the_topic_are_those_from_the_files(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    segments, source = tmp_path / "segments", source_of(broker, "audit")
    write_week(WEEK, segments)
    topic = KafkaEvents(TopicPlace.of(source))
    with pytest.raises(OSError, match="the broker is gone"):
        publish(FolderTarget(segments), torn(topic, 300), published_numbers(FolderTarget(segments), topic), now_ms())
    publish_all(segments, source)
    of_files = facts_of(spark, str(segments), tmp_path / "of-files")
    found = facts_of(spark, source, tmp_path / "of-topic")
    assert {table: len(rows) for table, rows in found.items()} == {table: len(rows) for table, rows in of_files.items()}
    assert found == of_files
    assert found["usage"]
