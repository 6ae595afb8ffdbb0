"""Segments become records of a topic, each event once, and no other state is kept."""

from pathlib import Path
from typing import Any

import pytest

from audit_pipeline.contract import contract
from audit_pipeline.errors import BadUseError
from audit_pipeline.ingest.audit_topic import TopicPlace, end_of, event_records, is_topic
from audit_pipeline.ingest.land import land
from audit_pipeline.reading.query import Events
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.compact import compact
from audit_pipeline.upkeep.publish import Published, publish, published_numbers
from broker_runtime.storage.disk.filesystem import OsFileSystem
from tests.support.audit.audit import AuditBench
from tests.support.fakes.memory_topic import MemoryTopic

NOW_MS = 4_000_000_000_000
MANY_BYTES = 1 << 30


class Segments:
    """Segments of two minutes, of one boot."""

    def __init__(self, folder: Path, **config: str) -> None:
        self.bench = AuditBench(OsFileSystem(), folder / "spools", segment_ms="120000", **config)
        self.folder = folder / "segments"
        self.target = FolderTarget(self.folder)

    def land(self, count: int) -> None:
        for number in range(count):
            self.bench.connect(connection_id=number + 1)
            self.bench.produce("orders", number % 3)
            self.bench.timers.advance(300)
        self.bench.request()
        self.bench.settle()
        land(self.folder.parent / "spools", self.target)

    def counts(self) -> dict[str, int]:
        events = Events(self.target)
        rows = {table: events.ask(f"SELECT count(*) FROM {table}")[1][0][0] for table in contract().tables}
        return {table: count for table, count in rows.items() if count}


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    return Segments(tmp_path)


def published(segments: Segments, topic: MemoryTopic) -> Published:
    """The result of a new publisher."""
    return publish(segments.target, topic, published_numbers(segments.target, topic), NOW_MS)


def events_of(topic: MemoryTopic) -> list[tuple[Any, ...]]:
    """Tables and keys of the events."""
    tables = contract().tables
    return [
        (read["table"], *(read[name] for name in tables[read["table"]].key))
        for read in topic.read
        if read["table"] in tables
    ]


def counted(topic: MemoryTopic) -> dict[str, int]:
    found: dict[str, int] = {}
    for table, *_ in set(events_of(topic)):
        found[table] = found.get(table, 0) + 1
    return found


def test_every_event_is_published_once_and_the_end_of_its_segment_behind_it(segments: Segments) -> None:
    segments.land(5)
    topic = MemoryTopic()
    done = published(segments, topic)
    assert done == Published(5, sum(segments.counts().values()), ())
    assert counted(topic) == segments.counts()
    assert len(events_of(topic)) == len(set(events_of(topic)))
    last_of: dict[int, str] = {}
    for read in topic.read:
        number = read["last_seq"] if read["table"] == "segment" else read["seq"]
        assert all(last_of[seq] != "segment" for seq in last_of if seq >= number), "an event is behind its end"
        last_of[number] = read["table"]
    assert {record.key for record in topic.records} == {b"cluster-7-0001"}
    assert published(segments, topic) == Published(0, 0, ())


def test_later_segments_are_published_by_a_later_run(segments: Segments) -> None:
    topic = MemoryTopic()
    assert published(segments, topic) == Published(0, 0, ())
    segments.land(3)
    there = published_numbers(segments.target, topic)
    assert publish(segments.target, topic, there, NOW_MS).segments == 3
    segments.land(2)
    assert publish(segments.target, topic, there, NOW_MS).segments == 2
    assert publish(segments.target, topic, there, NOW_MS).segments == 0
    assert counted(topic) == segments.counts()


def test_a_segment_that_was_torn_off_anywhere_is_published_again(segments: Segments) -> None:
    segments.land(3)
    whole = MemoryTopic()
    published(segments, whole)
    for takes in range(len(whole.records)):
        topic = MemoryTopic(takes)
        with pytest.raises(OSError, match="the broker is gone"):
            published(segments, topic)
        published(segments, topic)
        assert counted(topic) == segments.counts()
        ends = [footer.segments for footer in topic.ends(0)]
        assert ends == [footer.segments for footer in whole.ends(0)], takes


@pytest.mark.parametrize("takes", [1, 7])
def test_a_resumed_publisher_sends_nothing_twice_however_often_the_topic_fails(segments: Segments, takes: int) -> None:
    segments.land(3)
    whole = MemoryTopic()
    published(segments, whole)
    topic = MemoryTopic()
    there = published_numbers(segments.target, topic)
    for _ in range((len(whole.records) - 1) // takes):
        topic.takes = takes
        with pytest.raises(OSError, match="the broker is gone"):
            publish(segments.target, topic, there, NOW_MS)
    assert publish(segments.target, topic, there, NOW_MS).problems == ()
    assert topic.records == whole.records


def test_a_partly_published_segment_starts_over_if_it_was_merged_meanwhile(segments: Segments) -> None:
    segments.land(2)
    topic = MemoryTopic()
    there = published_numbers(segments.target, topic)
    publish(segments.target, topic, there, NOW_MS)
    segments.land(4)
    topic.takes = 4
    with pytest.raises(OSError, match="the broker is gone"):
        publish(segments.target, topic, there, NOW_MS)
    assert compact(segments.target, NOW_MS * 1000, MANY_BYTES) == 6
    assert publish(segments.target, topic, there, NOW_MS).segments == 1
    assert counted(topic) == segments.counts()
    assert len(events_of(topic)) == len(set(events_of(topic))) + 4


def test_a_segment_that_stays_damaged_is_not_published_again_and_again(segments: Segments) -> None:
    segments.land(2)
    damaged = sorted(segments.folder.rglob("request/**/*.parquet"))[1]
    data = damaged.read_bytes()
    damaged.write_bytes(data[:4] + bytes(40) + data[44:])
    topic = MemoryTopic()
    there = published_numbers(segments.target, topic)
    assert len(publish(segments.target, topic, there, NOW_MS).problems) == 1
    there_once = list(topic.records)
    for _ in range(3):
        assert len(publish(segments.target, topic, there, NOW_MS).problems) == 1
    assert topic.records == there_once
    torn_off = [read for read in topic.read if read.get("seq", 0) > next(topic.ends(0)).last_seq]
    assert torn_off, "some of it is there"


def test_segments_that_are_merged_meanwhile_are_not_published_twice(segments: Segments) -> None:
    segments.land(4)
    topic = MemoryTopic()
    published(segments, topic)
    segments.land(4)
    assert compact(segments.target, NOW_MS * 1000, MANY_BYTES) == 8
    assert published(segments, topic).segments == 1
    assert counted(topic) == segments.counts()
    assert len(events_of(topic)) == len(set(events_of(topic)))
    assert published(segments, topic) == Published(0, 0, ())


def test_a_segment_that_cannot_be_read_is_told_and_left_out(segments: Segments) -> None:
    segments.land(3)
    damaged = sorted(segments.folder.rglob("request/**/*.parquet"))[1]
    data = bytearray(damaged.read_bytes())
    data[: len(data) // 2] = bytes(len(data) // 2)
    damaged.write_bytes(data)
    topic = MemoryTopic()
    done = published(segments, topic)
    assert done.segments == 2
    assert len(done.problems) == 1
    assert damaged.name in done.problems[0]
    assert len(list(topic.ends(0))) == 2


def test_maps_are_objects_and_times_of_records_are_never_in_the_future(tmp_path: Path) -> None:
    segments = Segments(tmp_path, level="rollup")
    segments.land(2)
    topic = MemoryTopic()
    publish(segments.target, topic, published_numbers(segments.target, topic), 1000)
    assert {record.timestamp_ms for record in topic.records} == {1000}
    rollup = next(read for read in topic.read if read["table"] == "rollup" and read["topic"] is None)
    assert [int(count) for count in rollup["latency"].values()] == [1]
    assert rollup["ts"].endswith("Z")


def test_end_of_ignores_other_records_and_rejects_another_schema() -> None:
    assert end_of(None) is None
    assert end_of(b'{"table":"request"}') is None
    with pytest.raises(ValueError, match="lacks 'schema_version'"):
        end_of(b'{"table":"segment","rows":{}}')
    assert list(event_records("request", [], 0)) == []


def test_a_topic_is_named_with_its_brokers() -> None:
    assert is_topic("kafka:a:1/t")
    assert not is_topic("s3://a/t")
    assert TopicPlace.of("kafka:a:1,b:2/__audit") == TopicPlace("a:1,b:2", "__audit")


@pytest.mark.parametrize("source", ["kafka:a/t", "kafka:a:1", "kafka:a:1/", "kafka:a:1/b/c?", "a:1/t"])
def test_the_error_for_an_invalid_topic_shows_an_example(source: str) -> None:
    with pytest.raises(BadUseError, match=r"such as kafka:127\.0\.0\.1:9092/audit"):
        TopicPlace.of(source)
