"""Records of the audit topic are the published events, each once, and only those of complete segments."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.contract import contract
from audit_pipeline.ingest.audit_topic import EventRecord
from audit_pipeline.ingest.land import land
from audit_pipeline.results.frames import event_schema
from audit_pipeline.sources.catalogue import SegmentEntry
from audit_pipeline.sources.kafka_topic import entries_of
from audit_pipeline.sources.topic_frames import counted, ends, events_of
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.publish import PublishedNumbers, publish
from broker_runtime.storage.disk.filesystem import OsFileSystem
from tests.support.audit.audit import AuditBench
from tests.support.fakes.memory_topic import MemoryTopic

NOW_MS = 1_800_000_000_000


class Published:
    """Two boots, the second of them at level rollup: a segment of the first was torn off, and published again."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder = folder / "segments"
        target = FolderTarget(self.folder)
        for boot_id, level in (("0001", "full"), ("0002", "rollup")):
            bench = AuditBench(OsFileSystem(), folder / boot_id, boot_id, segment_ms="120000", level=level)
            for number in range(4):
                bench.connect(connection_id=number + 1)
                bench.produce("orders", number % 3)
                bench.timers.advance(300)
            bench.log.close()
            land(folder / boot_id, target)
        self.topic = MemoryTopic(takes=9)
        with pytest.raises(OSError, match="the broker is gone"):
            publish(target, self.topic, PublishedNumbers(), NOW_MS)
        torn = list(self.topic.records)
        publish(target, self.topic, PublishedNumbers(), NOW_MS)
        assert len(torn) == 9
        self.records = self._frame(spark, self.topic.records)

    @staticmethod
    def _frame(spark: SparkSession, records: list[EventRecord]) -> DataFrame:
        rows = [(0, at, record.timestamp_ms * 1000, record.value.decode()) for at, record in enumerate(records)]
        other = (1, 0, 0, '{"not": "ours"}')
        return spark.createDataFrame([*rows, other], "partition int, offset long, timestamp_us long, value string")

    @property
    def entries(self) -> list[SegmentEntry]:
        """Entries of all segments, each once."""
        by_segment = {(footer.boot, footer.segments): footer for footer in self.topic.ends(0)}
        return [entry for footer in by_segment.values() for entry in entries_of("kafka:b:1/audit", footer)]

    def landed(self, spark: SparkSession, table: str) -> DataFrame:
        reader = spark.read.schema(event_schema(table)).option("recursiveFileLookup", "true")
        return reader.parquet(str(self.folder / table))


@pytest.fixture(scope="module")
def published(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Published:
    return Published(tmp_path_factory.mktemp("published"), spark)


@pytest.mark.parametrize("table", ["connection", "partition", "request", "rollup"])
def test_events_are_those_of_the_files(spark: SparkSession, published: Published, table: str) -> None:
    found = events_of(published.records, table, published.entries)
    assert found.columns == event_schema(table).names
    assertDataFrameEqual(found, published.landed(spark, table))


def test_events_of_segments_that_are_not_asked_for_are_left_out(published: Published) -> None:
    first = [entry for entry in published.entries if entry.table == "partition"][:2]
    found = {row.seq for row in events_of(published.records, "partition", first).collect()}
    assert found
    assert max(found) <= max(entry.last_seq for entry in first)
    assert events_of(published.records, "gap", first).count() == 0


def test_rows_are_counted_by_segment_and_table(published: Published) -> None:
    entries = [entry for entry in published.entries if entry.rows]
    found = {entries[each.number].path: each for each in counted(published.records, entries)}
    assert set(found) == {entry.path for entry in entries}
    assert all(found[entry.path].rows >= entry.rows for entry in entries)
    assert sum(each.rows for each in found.values()) > sum(entry.rows for entry in entries), "nothing is there twice"
    assert all(each.impossible == 0 and each.partition == 0 for each in found.values())
    times = [(each.ts_min, each.ts_max) for each in found.values()]
    assert all(low is not None and high is not None and low <= high for low, high in times)


def test_impossible_times_are_counted_once_and_left_out(published: Published) -> None:
    entry = next(entry for entry in published.entries if entry.table == "partition")
    late = [_opened(entry, entry.opened_us + 30 * 24 * 3_600_000_000)]
    (found,) = counted(published.records, late)
    assert (found.impossible, found.ts_min, found.ts_max) == (entry.rows, None, None)
    assert events_of(published.records, "partition", late).count() == 0


def _opened(entry: SegmentEntry, us: int) -> SegmentEntry:
    return replace(entry, opened_us=us, closed_us=us)


def test_ends_are_found_among_all_records(published: Published) -> None:
    assert ends(published.records).count() == len(list(published.topic.ends(0)))
    assert {entry.table for entry in published.entries} <= set(contract().tables)
