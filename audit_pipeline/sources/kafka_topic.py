"""The audit topic as a source of events, through Spark's connector for Kafka: `--source kafka:BOOTSTRAP/TOPIC`.

The end of a segment replaces the footers of its files, and the segment's records replace their statistics. Each end is
read once: the offsets up to which the topic was scanned are stored.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.contract import contract
from audit_pipeline.errors import BadUseError
from audit_pipeline.ingest.audit_topic import TopicPlace, end_of
from audit_pipeline.ingest.kafka_events import TopicReader
from audit_pipeline.results.frames import EventFrames
from audit_pipeline.sources.catalogue import (
    CLOCK_BACK_US,
    DAY_US,
    Hole,
    SegmentEntry,
    holes,
    of_tables,
)
from audit_pipeline.sources.connector import COORDINATES
from audit_pipeline.sources.look import SegmentListing
from audit_pipeline.sources.remembered import packed, unpacked
from audit_pipeline.sources.segments import entry_of, in_the_future
from audit_pipeline.sources.topic_frames import counted, ends, events_of
from audit_pipeline.spool.listing import SegmentPath
from audit_pipeline.spool.segment import Footer, folder_of, segment_name

Offsets = Mapping[int, int]


class TopicRecords(Protocol):
    """The records of an audit topic, read from Kafka.

    Raises OSError if the brokers do not answer, BadUseError if there is no such topic.
    """

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Return, by partition, the first offset and the offset after the last."""
        ...

    def since(self, ms: int) -> dict[int, int]:
        """Return, by partition, an offset before which all records are older than `ms`; negative if all records are."""
        ...

    def frame(self, first: Offsets, end: Offsets) -> DataFrame:
        """Return the records from `first` to before `end`: partition, offset, timestamp_us, and value as text."""
        ...


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """One table of a segment in a topic, with the offset at which the table's rows begin."""

    entry: SegmentEntry
    partition: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Remembered:
    """The stored state of the last scan of a topic.

    `offsets` has, by partition, the offset up to which the topic was scanned for records that end a segment. `entries`
    are the tables of the segments whose ends were found.
    """

    offsets: dict[int, int] = field(default_factory=dict)
    entries: tuple[TopicEntry, ...] = ()


class AuditTopic(SegmentListing):
    """One scan of an audit topic.

    Raises OSError if its brokers do not answer, BadUseError if it is missing or replaced.
    """

    def __init__(self, source: str, records: TopicRecords, remembered: bytes | None, now_us: int) -> None:
        self._source = source
        self._topic = records
        self._former = _remembered(remembered) if remembered else Remembered()
        bounds = records.bounds()
        self._low = {partition: low for partition, (low, _) in bounds.items()}
        self._high = {partition: high for partition, (_, high) in bounds.items()}
        super().__init__([each.entry for each in self._former.entries])
        known = [self._still(each) for each in self._former.entries]
        self._entries = [
            replace(each, entry=in_the_future(each.entry, now_us)) for each in _widest([*known, *self._new()])
        ]
        self._see([each.entry for each in self._entries if each.entry.is_present])

    def holes(self, settled_us: int) -> Sequence[Hole]:
        """Return the missing numbers of the topic.

        If the topic has lost its beginning, numbers before a boot's first segment count as deleted.
        """
        deleted: dict[tuple[str, int, str], int] = {}
        if any(self._low.values()):
            for entry in self.found.told:
                before = entry.first_seq - 1
                deleted[entry.boot] = min(deleted.get(entry.boot, before), before)
        return holes(self.found, deleted, settled_us)

    def rows_of(self, hours: Collection[int], *, only_new: bool = False, tables: Collection[str] | None = None) -> int:
        old = {each.entry.path for each in self._former.entries} if only_new else ()
        wanted = of_tables(self.found.touching(hours), tables)
        return sum(entry.rows for entry in wanted if entry.path not in old)

    def events(self, spark: SparkSession, hours: Collection[int]) -> EventFrames:
        wanted = self.found.touching(hours)
        first = dict(self._high)
        of_wanted = {(entry.path, entry.table) for entry in wanted}
        for each in self._entries:
            if (each.entry.path, each.entry.table) in of_wanted:
                first[each.partition] = min(first[each.partition], each.first_offset)
        records = self._frame(first)
        return EventFrames(**{table: events_of(records, table, wanted) for table in contract().tables})

    def scan_again(self, hours: Collection[int]) -> bool:
        """Return False, because another attempt would not help: brokers have validated the content of a topic."""
        return False

    def remembered(self) -> bytes:
        counting = {(entry.path, entry.table): replace(entry, counts=True) for entry in self.found.entries}
        others = {(each.path, each.table): replace(each, counts=False) for each in (e.entry for e in self._entries)}
        told = {**others, **counting}
        entries = tuple(replace(each, entry=told[each.entry.path, each.entry.table]) for each in self._entries)
        return packed([(Remembered(self._high, entries),)])

    def _still(self, each: TopicEntry) -> TopicEntry:
        """Mark an entry as absent if the topic's retention has deleted some of its rows."""
        is_there = each.first_offset >= self._low.get(each.partition, 0)
        return each if is_there else replace(each, entry=replace(each.entry, is_present=False))

    def _new(self) -> list[TopicEntry]:
        """Return the segments whose ends are new since the last scan, by table."""
        for partition, offset in self._former.offsets.items():
            if offset > self._high.get(partition, 0):
                raise BadUseError(
                    f"{self._source} was deleted and created again: its partition {partition} ends at "
                    f"{self._high.get(partition, 0)}, but was read up to {offset} before: give another --results"
                )
        first = {each: max(low, self._former.offsets.get(each, 0)) for each, low in self._low.items()}
        if all(first[partition] >= high for partition, high in self._high.items()):
            return []
        made: list[TopicEntry] = []
        oldest_us = 0
        for row in ends(self._frame(first)).collect():
            footer = end_of(row.value.encode())
            if footer is None:
                continue
            # If a broker's clock was ahead, records have the time at which they were published.
            ended_us = min(footer.opened_us, row.timestamp_us)
            oldest_us = ended_us if not made else min(oldest_us, ended_us)
            made += (TopicEntry(each, row.partition, row.offset) for each in entries_of(self._source, footer))
        return self._with_rows(_widest(made), oldest_us)

    def _with_rows(self, made: list[TopicEntry], oldest_us: int) -> list[TopicEntry]:
        asked = [each.entry for each in made if each.entry.rows and each.entry.fault is None]
        if not asked:
            return made
        # Older rows have an impossible time; they are counted as far as the topic still has them.
        records = self._frame(self._since(oldest_us - CLOCK_BACK_US - DAY_US))
        places = {each.path: number for number, each in enumerate(asked)}
        there = {each.number: each for each in counted(records, asked)}
        found = []
        for each in made:
            rows = there.get(places.get(each.entry.path, -1))
            if each.entry.path not in places:
                found.append(each)
            elif rows is None or rows.rows < each.entry.rows:
                detail = f"the topic has {rows.rows if rows else 0} of the segment's {each.entry.rows} rows"
                found.append(replace(each, entry=replace(each.entry, fault="corrupt", detail=detail)))
            else:
                told = replace(
                    each.entry,
                    rows=each.entry.rows - rows.impossible,
                    ts_min=rows.ts_min,
                    ts_max=rows.ts_max,
                    clock_rows=rows.impossible,
                )
                found.append(TopicEntry(told, rows.partition, rows.first_offset))
        return found

    def _since(self, us: int) -> Offsets:
        first = self._topic.since(max(us, 0) // 1000)
        return {partition: first[partition] if first[partition] >= 0 else self._high[partition] for partition in first}

    def _frame(self, first: Offsets) -> DataFrame:
        """Return the records from these offsets to the end of the topic at this scan."""
        return self._topic.frame({each: min(first.get(each, 0), high) for each, high in self._high.items()}, self._high)


class KafkaRecords:
    """A topic read through Spark's connector, and through a client for what the connector does not provide."""

    def __init__(self, spark: SparkSession, place: TopicPlace) -> None:
        self._spark = spark
        self._place = place

    def bounds(self) -> dict[int, tuple[int, int]]:
        with TopicReader(self._place) as reader:
            return reader.bounds()

    def since(self, ms: int) -> dict[int, int]:
        with TopicReader(self._place) as reader:
            return reader.since(ms)

    def frame(self, first: Offsets, end: Offsets) -> DataFrame:
        reader = self._spark.read.format("kafka").options(
            **{
                **self._place.client.spark,
                "kafka.bootstrap.servers": self._place.bootstrap,
                "assign": json.dumps({self._place.topic: sorted(end)}),
                "startingOffsets": _offsets(self._place.topic, first),
                "endingOffsets": _offsets(self._place.topic, end),
            }
        )
        try:
            records = reader.load()
        except AnalysisException as error:
            raise BadUseError(f"Spark has no connector for Kafka: start it with --packages {COORDINATES}") from error
        return records.select(
            "partition", "offset", F.unix_micros("timestamp").alias("timestamp_us"), F.col("value").cast("string")
        )


def _remembered(state: bytes) -> Remembered:
    # In a tuple: the entries of a state of files would count as offsets that are missing.
    ((told,),) = unpacked(state, tuple[Remembered])
    return told


def _offsets(topic: str, offsets: Offsets) -> str:
    return json.dumps({topic: {str(partition): offset for partition, offset in offsets.items()}})


def entries_of(source: str, footer: Footer) -> Iterable[SegmentEntry]:
    """Yield the entries of a segment in a topic, in the form of landed files."""
    low, high = footer.segments
    number = f"{low:08d}" if low == high else f"{low:08d}-{high:08d}"
    name = segment_name(footer.cluster_id, footer.broker_id, footer.boot_id, number)
    for table, rows in footer.rows.items():
        file = SegmentPath(table, f"{folder_of(table, footer.opened_us)}/{name}", size=0)
        yield entry_of(source, file, footer, rows)


def _widest(entries: Iterable[TopicEntry]) -> list[TopicEntry]:
    """Return each segment once: it may be published twice, and again after it was merged with others."""
    kept: list[TopicEntry] = []
    for each in sorted(entries, key=lambda each: _order(each.entry)):
        last = kept[-1].entry if kept else None
        is_in_last = last is not None and _of(last) == _of(each.entry) and each.entry.high <= last.high
        if not is_in_last:
            kept.append(each)
    return kept


def _of(entry: SegmentEntry) -> tuple[str, tuple[str, int, str]]:
    return entry.table, entry.boot


def _order(entry: SegmentEntry) -> tuple[str, tuple[str, int, str], int, int]:
    return entry.table, entry.boot, entry.low, -entry.high
