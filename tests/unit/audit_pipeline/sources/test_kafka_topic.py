"""The audit topic gives the same segments and days as the files that were published to it."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from audit_pipeline.errors import BadUseError
from audit_pipeline.sources.kafka_topic import AuditTopic, Offsets, Remembered
from audit_pipeline.sources.landed import LandedSegments
from audit_pipeline.sources.remembered import packed
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.publish import publish, published_numbers
from tests.support.audit.audit_weeks.week import Week, arrivals, put
from tests.support.fakes.memory_topic import MemoryTopic

WEEK = Week(days=1, segments=5, events=600, topics=2, principals=4, spoils=("skewed", "hole", "late", "gap", "future"))
NOW_MS = WEEK.now_us // 1000 + 30 * 24 * 3_600_000
PARTITIONS = 3
SOURCE = "kafka:b:1/audit"


class MemoryRecords:
    """A topic of three partitions; retention has deleted the records before `low`."""

    def __init__(self, spark: SparkSession, topic: MemoryTopic, low: int = 0) -> None:
        self._spark = spark
        self._low = low
        self._rows: list[list[tuple[int, int, int, str]]] = [[] for _ in range(PARTITIONS)]
        for record in topic.records:
            rows = self._rows[sum(record.key) % PARTITIONS]
            rows.append((sum(record.key) % PARTITIONS, len(rows), record.timestamp_ms * 1000, record.value.decode()))

    def bounds(self) -> dict[int, tuple[int, int]]:
        return {partition: (min(self._low, len(rows)), len(rows)) for partition, rows in enumerate(self._rows)}

    def since(self, ms: int) -> dict[int, int]:
        return {
            partition: next((offset for _, offset, at_us, _ in rows[self._low :] if at_us >= ms * 1000), -1)
            for partition, rows in enumerate(self._rows)
        }

    def frame(self, first: Offsets, end: Offsets) -> DataFrame:
        rows = [row for partition, found in enumerate(self._rows) for row in found[first[partition] : end[partition]]]
        return self._spark.createDataFrame(rows, "partition int, offset long, timestamp_us long, value string")


def look(spark: SparkSession, topic: MemoryTopic, remembered: bytes | None = None, low: int = 0) -> AuditTopic:
    return AuditTopic(SOURCE, MemoryRecords(spark, topic, low), remembered, WEEK.now_us)


def publish_all(folder: Path, topic: MemoryTopic) -> None:
    target = FolderTarget(folder)
    assert publish(target, topic, published_numbers(target, topic), NOW_MS).problems == ()


def files(folder: Path, remembered: bytes | None = None) -> LandedSegments:
    return LandedSegments([str(folder)], remembered, WEEK.now_us)


def test_the_topic_gives_the_same_hours_and_segments_as_the_files(spark: SparkSession, tmp_path: Path) -> None:
    batches, _ = arrivals(WEEK)
    for file in batches[0]:
        put(file, tmp_path)
    topic = MemoryTopic(takes=300)
    with pytest.raises(OSError, match="the broker is gone"):
        publish_all(tmp_path, topic)
    publish_all(tmp_path, topic)
    first, first_files = look(spark, topic), files(tmp_path)
    assert first.touched == first_files.touched != set()
    for each in (first, first_files):
        each.settle(each.touched)
        assert each.touched == set()
    for batch in batches[1:]:
        for file in batch:
            put(file, tmp_path)
    publish_all(tmp_path, topic)
    found, landed = look(spark, topic, first.remembered()), files(tmp_path, first_files.remembered())
    hours = landed.touched
    assert found.touched == hours != set()
    assert (found.lost, list(found.holes(WEEK.now_us))) == (landed.lost, list(landed.holes(WEEK.now_us)))
    assert list(found.set_aside) == list(landed.set_aside)
    assert [found.rows_of(hours), found.rows_of(hours, only_new=True)] == [
        landed.rows_of(hours),
        landed.rows_of(hours, only_new=True),
    ]
    assert look(spark, topic, found.remembered()).touched == hours
    found.settle(hours)
    again = look(spark, topic, found.remembered())
    assert (again.touched, again.rows_of(hours)) == (set(), found.rows_of(hours))

    # Results of deleted records stay as they were built.
    later = look(spark, topic, found.remembered(), low=len(topic.records))
    assert later.touched == set()
    assert later.lost >= hours
    assert not later.found.touching(hours)


def test_a_topic_without_records_is_empty_and_a_recreated_topic_is_reported(spark: SparkSession) -> None:
    empty = look(spark, MemoryTopic())
    assert (empty.touched, list(empty.holes(WEEK.now_us)), list(empty.set_aside)) == (set(), [], [])
    remembered = packed([(Remembered({0: 7}),)])
    with pytest.raises(BadUseError, match="its partition 0 ends at 0, but was read up to 7 before: give another"):
        look(spark, MemoryTopic(), remembered)
