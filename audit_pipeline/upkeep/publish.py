"""Publishing: landed segments become records of a topic, each event once; interrupted segments are published again.

The only state is what the topic contains: the ends of its segments. A process that continues after an error also knows
which rows of a segment the topic has acknowledged, and continues after them.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from audit_pipeline.contract import Boot, contract
from audit_pipeline.ingest.audit_topic import EventRecord, end_record, event_records
from audit_pipeline.ranges import NumberRanges
from audit_pipeline.spool.listing import SegmentPath, segment_paths
from audit_pipeline.spool.segment import Footer, NoSegmentError
from audit_pipeline.spool.stored_segment import footer_at, row_groups_at
from audit_pipeline.spool.targets import Target

log = logging.getLogger(__name__)

_ROWS = 1024
_MANY_ROWS = 10_000
"""The start of a segment with more rows is logged."""
_DAY_MS = 24 * 3_600_000


class EventTopic(Protocol):
    """The topic that events are published to.

    Methods raise OSError if the topic is not available. Records put before and not acknowledged are then discarded.
    """

    @property
    def acknowledged(self) -> int:
        """Return the number of put records that are in the topic, counted in order from the first one."""
        ...

    def ends(self, since_ms: int) -> Iterator[Footer]:
        """Yield the ends of all segments in the topic whose records are not older than `since_ms`."""
        ...

    def put(self, records: Iterable[EventRecord]) -> None: ...

    def flush(self) -> None:
        """Wait until all put records are in the topic, on all in-sync replicas."""
        ...


@dataclass(frozen=True, slots=True)
class TornOff:
    """A segment of audit events of which only the first rows are in the topic.

    `rows` is the number of these rows, counted in the order of `files`.
    """

    footer: Footer
    files: dict[str, SegmentPath]
    rows: int


@dataclass(slots=True)
class PublishedNumbers:
    """The numbers of events whose segments are completely in the topic, by boot.

    For one incomplete segment of each boot, it also has the number of rows in the topic.
    """

    _ranges: dict[Boot, NumberRanges] = field(default_factory=lambda: defaultdict(NumberRanges))
    _torn_off: dict[Boot, TornOff] = field(default_factory=dict)

    def add(self, footer: Footer) -> None:
        self._ranges[footer.boot].add(footer.first_seq, footer.last_seq)
        # Its rows were counted without those that were already there.
        self._torn_off.pop(footer.boot, None)

    def tear_off(self, segment: TornOff) -> None:
        self._torn_off[segment.footer.boot] = segment

    def rows_of(self, footer: Footer, files: dict[str, SegmentPath]) -> int:
        """Return how many rows of an incomplete segment are in the topic.

        Different files may order them differently.
        """
        torn_off = self._torn_off.get(footer.boot)
        is_same = torn_off is not None and (torn_off.footer, torn_off.files) == (footer, files)
        return torn_off.rows if torn_off is not None and is_same else 0

    def has(self, footer: Footer) -> bool:
        ranges = self._ranges.get(footer.boot)
        return ranges is not None and ranges.has(footer.first_seq, footer.last_seq)

    def without(self, rows: pa.Table, boot: Boot) -> pa.Table:
        """Return the rows that are not in the topic: a file may be merged from segments of which some are published."""
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
    """The result of one pass that published segments to the audit topic.

    `problems` are messages, each about a segment that is not in the topic.
    """

    segments: int
    events: int
    problems: tuple[str, ...]


class LandedFooters:
    """The footers of a target's files by path and size, each read once while its file exists."""

    def __init__(self) -> None:
        self._known: dict[SegmentPath, Footer] = {}

    def of(self, target: Target, problems: list[str]) -> Iterator[tuple[SegmentPath, Footer]]:
        """Yield the footers of all files of a landed audit log. Files without a footer are reported in `problems`."""
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
    """Return the numbers of the target's events that are in the topic. Raises OSError."""
    found = PublishedNumbers()
    opened_us = [footer.opened_us for footer, _ in _segments(target, footers or LandedFooters(), [])]
    # Records have the times of events, which another clock may have put on another day.
    since_ms = min(opened_us) // 1000 - _DAY_MS if opened_us else 0
    for footer in topic.ends(max(0, since_ms)) if opened_us else ():
        found.add(footer)
    return found


def publish(
    target: Target, topic: EventTopic, there: PublishedNumbers, now_ms: int, footers: LandedFooters | None = None
) -> Published:
    """Publish all segments that are not in the topic, and record them in `there`. Raises OSError.

    A caller that repeats this keeps `footers`, and `there` even after an error.
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
    """Return the complete segments, ordered by boot and number."""
    found: dict[tuple[Boot, tuple[int, int]], tuple[Footer, dict[str, SegmentPath]]] = {}
    for file, footer in footers.of(target, problems):
        if footer.schema_version != contract().version:
            problems.append(f"{file.path} has schema version {footer.schema_version}, which is not known")
            continue
        found.setdefault((footer.boot, footer.segments), (footer, {}))[1][file.table] = file
    return [each for _, each in sorted(found.items()) if each[0].rows.keys() <= each[1].keys()]


def _log_begin(footer: Footer, rows: int) -> None:
    total = sum(footer.rows.values())
    if rows or total >= _MANY_ROWS:
        boot = "-".join(map(str, footer.boot))
        log.info(
            "%s: segment %d-%d has %d events, %d of them already in the topic", boot, *footer.segments, total, rows
        )


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
                _log_begin(footer, had)
            for at in range(0, len(rows), _ROWS):
                topic.put(event_records(table, rows.slice(at, _ROWS).to_pylist(), now_ms))
            events += len(rows)
        # The end is put only once everything before it is there.
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
    """Yield the rows to publish, by table, without the first `begin` rows."""
    for table in sorted(footer.rows):
        for group in row_groups_at(files[table].path, table, target):
            rows = there.without(group, footer.boot)
            left_out = min(begin, len(rows))
            begin -= left_out
            yield table, rows.slice(left_out)
