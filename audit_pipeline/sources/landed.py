"""Landed segments as a source of events: folders, or object stores."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date
from typing import Final

from pyspark.sql import SparkSession

from audit_pipeline.contract import contract
from audit_pipeline.hours import hours_of_day
from audit_pipeline.results.frames import EventFrames, event_schema
from audit_pipeline.sources.catalogue import Hole, SegmentEntry, holes, of_tables, with_shared_names
from audit_pipeline.sources.local_frame import local_frame
from audit_pipeline.sources.look import SegmentListing
from audit_pipeline.sources.parquet_files import WantedFile, frame_of
from audit_pipeline.sources.remembered import packed, unpacked
from audit_pipeline.sources.segments import any_has_gone, damaged, look
from audit_pipeline.spool.targets import Target, open_target
from audit_pipeline.upkeep.retention import expired

HOURS_BEFORE: Final = 2
"""Hours before a day whose limits a replay needs: brokers report all of them every hour."""


class LandedSegments(SegmentListing):
    """One scan of the segments of some targets; `sources` are their URIs.

    Raises OSError if a target does not answer.
    """

    def __init__(self, sources: Sequence[str], remembered: bytes | None, now_us: int) -> None:
        self._targets: dict[str, Target] = {source: open_target(source) for source in sources}
        self._former = [with_shared_names(entry) for entry in unpacked(remembered, SegmentEntry)] if remembered else []
        self._known_files = {(entry.source, entry.path, entry.size) for entry in self._former}
        super().__init__(self._former)
        self._now_us = now_us
        self._all_by_arrow = False
        self._scan()

    def _scan(self) -> None:
        known = {(entry.source, entry.path, entry.size): entry for entry in self._former if entry.is_present}
        self._see(*look(self._targets, known, self._now_us))

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing, not even the record that retention leaves when it deletes everything."""
        return super().is_empty and not any(map(expired, self._targets.values()))

    @property
    def newest_us(self) -> int:
        """Return the time at which the newest segment ended; 0 without any."""
        return max((entry.closed_us for entry in self.found.entries), default=0)

    def holes(self, settled_us: int) -> Sequence[Hole]:
        deleted: dict[tuple[str, int, str], int] = {}
        for target in self._targets.values():
            deleted.update(expired(target))
        return holes(self.found, deleted, settled_us)

    def rows_of(self, hours: Collection[int], *, only_new: bool = False, tables: Collection[str] | None = None) -> int:
        old = self._known_files if only_new else ()
        wanted = of_tables(self.found.touching(hours), tables)
        return sum(entry.rows for entry in wanted if (entry.source, entry.path, entry.size) not in old)

    def events(self, spark: SparkSession, hours: Collection[int]) -> EventFrames:
        wanted = self.found.touching(hours)
        frames = {}
        for table in contract().tables:
            schema = event_schema(table)
            frame = None
            for source in self._targets:
                files = [_wanted(entry) for entry in wanted if (entry.source, entry.table) == (source, table)]
                part = frame_of(spark, source, files, schema, all_by_arrow=self._all_by_arrow) if files else None
                frame = part if frame is None else frame.unionByName(part) if part is not None else frame
            frames[table] = local_frame(spark, schema) if frame is None else frame
        return EventFrames(**frames)

    def files(self, day: date) -> list[SegmentEntry]:
        """Return the files that exist and may have events of a day, or of the two hours before it."""
        hours = hours_of_day(day)
        return self.found.touching([*range(hours[0] - HOURS_BEFORE, hours[0]), *hours])

    def scan_again(self, hours: Collection[int]) -> bool:
        wanted = self.found.touching(hours)
        if any_has_gone(wanted, self._targets):
            # Another process has compacted meanwhile: the same events are in other files.
            self._scan()
            return True
        bad = damaged(wanted, self._targets)
        known = {(entry.source, entry.path): entry for entry in bad}
        self._see([known.get((entry.source, entry.path), entry) for entry in self._present], self._unread)
        if bad or self._all_by_arrow:
            return bool(bad)
        # The files are valid: another writer has written one in a way that Spark's own reader does not support.
        self._all_by_arrow = True
        return True

    def remembered(self) -> bytes:
        """Return the state for the next scan: the files that count, and other files that need not be read again."""
        counting = [entry if entry.counts else replace(entry, counts=True) for entry in self.found.entries]
        # A file that was damaged after it had counted is listed twice: results were built with it, and its fault is
        # reported.
        places = {(entry.source, entry.path) for entry in counting if entry.is_present}
        others = [replace(each, counts=False) for each in self._present if (each.source, each.path) not in places]
        return packed([*counting, *others])


def _wanted(entry: SegmentEntry) -> WantedFile:
    if entry.clock_rows:
        return WantedFile(entry.path, entry.size, entry.earliest_us, entry.latest_us)
    return WantedFile(entry.path, entry.size)
