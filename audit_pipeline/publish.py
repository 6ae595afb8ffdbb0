"""Publishing: landed segments become records of a topic, each event once; what is torn off is published again.

Nothing is kept of it but what the topic says itself: the ends of segments that are in it. Whoever goes on in the same
process knows more, and goes on with a segment behind those of its rows that the topic has acknowledged.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from audit_pipeline.audit_topic import EventRecord, end_record, event_records
from audit_pipeline.contract import contract
from audit_pipeline.listing import SegmentPath, segment_paths
from audit_pipeline.ranges import NumberRanges
from audit_pipeline.segment import Footer, NoSegmentError
from audit_pipeline.stored_segment import footer_at, row_groups_at
from audit_pipeline.targets import Target

log = logging.getLogger(__name__)

_ROWS = 1024
_MANY_ROWS = 10_000
"""A segment with more is told of when it is begun."""
_DAY_MS = 24 * 3_600_000

Boot = tuple[str, int, str]


class EventTopic(Protocol):
    """Raises OSError where the topic cannot be had. What had been put by then and was not acknowledged is forgotten."""

    @property
    def acknowledged(self) -> int:
        """How many records are in the topic of those that were put, in their order and from the first one on."""
        ...

    def ends(self, since_ms: int) -> Iterator[Footer]:
        """Of all segments in the topic whose records are not older than that."""
        ...

    def put(self, records: Iterable[EventRecord]) -> None: ...

    def flush(self) -> None:
        """All that was put is in the topic, on all replicas that are in sync."""
        ...


@dataclass(frozen=True, slots=True)
class TornOff:
    """A segment whose end is not in the topic, and how many of its rows are: the first ones, in the files' order."""

    footer: Footer
    files: dict[str, SegmentPath]
    rows: int


@dataclass(slots=True)
class PublishedNumbers:
    """Which numbers of each boot are in the topic, with an end behind them; and of one segment of it, begun and torn
    off, how many rows."""

    _ranges: dict[Boot, NumberRanges] = field(default_factory=lambda: defaultdict(NumberRanges))
    _torn_off: dict[Boot, TornOff] = field(default_factory=dict)

    def add(self, footer: Footer) -> None:
        self._ranges[footer.boot].add(footer.first_seq, footer.last_seq)
        # Its rows were counted without those that were there.
        self._torn_off.pop(footer.boot, None)

    def tear_off(self, segment: TornOff) -> None:
        self._torn_off[segment.footer.boot] = segment

    def rows_of(self, footer: Footer, files: dict[str, SegmentPath]) -> int:
        """How many rows are there of a segment that has no end there. Other files may have them in another order."""
        torn_off = self._torn_off.get(footer.boot)
        is_same = torn_off is not None and (torn_off.footer, torn_off.files) == (footer, files)
        return torn_off.rows if torn_off is not None and is_same else 0

    def has(self, footer: Footer) -> bool:
        ranges = self._ranges.get(footer.boot)
        return ranges is not None and ranges.has(footer.first_seq, footer.last_seq)

    def without(self, rows: pa.Table, boot: Boot) -> pa.Table:
        """Those that are not there: a file may have been merged of segments of which some are."""
        ranges = self._ranges.get(boot)
        if ranges is None:
            return rows
        seq = rows["seq"].to_numpy()
        is_there = np.zeros(len(seq), bool)
        for first, last in ranges:
            is_there |= (first <= seq) & (seq <= last)
        return rows.filter(pa.array(~is_there))


@dataclass(frozen=True, slots=True)
class Published:
    """What was done in one pass; `problems` are sentences, each about a segment that is not in the topic."""

    segments: int
    events: int
    problems: tuple[str, ...]


class LandedFooters:
    """Footers of a target's files by path and size, each read once for as long as its file is there."""

    def __init__(self) -> None:
        self._known: dict[SegmentPath, Footer] = {}

    def of(self, target: Target, problems: list[str]) -> Iterator[tuple[SegmentPath, Footer]]:
        """Of all files that are there; those that have none are told in `problems`."""
        known, self._known = self._known, {}
        for file in segment_paths(target):
            try:
                footer = known.get(file) or footer_at(file.path, target)
            except FileNotFoundError:
                continue
            except NoSegmentError as error:
                problems.append(str(error))
                continue
            self._known[file] = footer
            yield file, footer


def published_numbers(target: Target, topic: EventTopic, footers: LandedFooters | None = None) -> PublishedNumbers:
    """What is in the topic of that which the target has. Raises OSError."""
    found = PublishedNumbers()
    opened_us = [footer.opened_us for footer, _ in _segments(target, footers or LandedFooters(), [])]
    # Records have times of events, and these may be of another clock's day.
    since_ms = min(opened_us) // 1000 - _DAY_MS if opened_us else 0
    for footer in topic.ends(max(0, since_ms)) if opened_us else ():
        found.add(footer)
    return found


def publish(
    target: Target, topic: EventTopic, there: PublishedNumbers, now_ms: int, footers: LandedFooters | None = None
) -> Published:
    """Publish all segments that are not in the topic, and note them in `there`. Raises OSError.

    Whoever comes again and again keeps `footers`, and `there` also when it fails.
    """
    segments, events = 0, 0
    problems: list[str] = []
    for footer, files in _segments(target, footers or LandedFooters(), problems):
        if there.has(footer):
            continue
        try:
            events += _publish(footer, files, target, topic, there, now_ms)
        except (NoSegmentError, FileNotFoundError) as error:
            problems.append(f"{footer.cluster_id}-{footer.broker_id}-{footer.boot_id}: {error}")
            continue
        there.add(footer)
        segments += 1
    return Published(segments, events, tuple(problems))


def _segments(
    target: Target, footers: LandedFooters, problems: list[str]
) -> list[tuple[Footer, dict[str, SegmentPath]]]:
    """Whole ones, in the order of their boots and numbers."""
    found: dict[tuple[Boot, tuple[int, int]], tuple[Footer, dict[str, SegmentPath]]] = {}
    for file, footer in footers.of(target, problems):
        if footer.schema_version != contract().version:
            problems.append(f"{file.path} has schema version {footer.schema_version}, which is not known")
            continue
        found.setdefault((footer.boot, footer.segments), (footer, {}))[1][file.table] = file
    return [each for _, each in sorted(found.items()) if each[0].rows.keys() <= each[1].keys()]


def _tell_begin(footer: Footer, rows: int) -> None:
    total = sum(footer.rows.values())
    if rows or total >= _MANY_ROWS:
        boot = "-".join(map(str, footer.boot))
        log.info("%s: segment %d-%d has %d events, of which %d are there", boot, *footer.segments, total, rows)


def _publish(
    footer: Footer,
    files: dict[str, SegmentPath],
    target: Target,
    topic: EventTopic,
    there: PublishedNumbers,
    now_ms: int,
) -> int:
    had = events = there.rows_of(footer, files)
    before = topic.acknowledged - had
    try:
        for table, rows in _rows_behind(had, footer, files, target, there):
            if len(rows) and events == had:
                _tell_begin(footer, had)
            for at in range(0, len(rows), _ROWS):
                topic.put(event_records(table, rows.slice(at, _ROWS).to_pylist(), now_ms))
            events += len(rows)
        # What is before the end is there before the end is.
        topic.flush()
        topic.put([end_record(footer, now_ms)])
        topic.flush()
    except (NoSegmentError, FileNotFoundError):
        topic.flush()
        raise
    finally:
        there.tear_off(TornOff(footer, files, topic.acknowledged - before))
    return events


def _rows_behind(
    begin: int, footer: Footer, files: dict[str, SegmentPath], target: Target, there: PublishedNumbers
) -> Iterator[tuple[str, pa.Table]]:
    """Rows that are to be published, by table, without the first so many."""
    for table in sorted(footer.rows):
        for group in row_groups_at(files[table].path, table, target):
            rows = there.without(group, footer.boot)
            left_out = min(begin, len(rows))
            begin -= left_out
            yield table, rows.slice(left_out)
