"""Which files of segments count, which are set aside and why, and in which hours they have events. Pure.

The table `quarantine` defines what is set aside, the table `completeness` defines holes.
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property
from sys import intern
from typing import NamedTuple

from audit_pipeline.contract import Boot
from audit_pipeline.hours import HOUR_US, by_day, hour_at, shown
from audit_pipeline.ranges import NumberRanges

DAY_US = 24 * HOUR_US
CLOCK_BACK_US = 7 * DAY_US
CLOCK_AHEAD_US = 5 * 60_000_000
LOST = "lost"
"""The reason in `quarantine` for files that were deleted before one of their hours was built, on `event_date`."""

_GOES_ON = "next"
"""As `end` in spool.segment.Footer: another segment follows."""

Ranges = dict[tuple[str, Boot], NumberRanges]
"""The spools that files were made from, by table and boot."""


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """One file of a segment, as described by its footer and its columns' statistics.

    `low` to `high` are the spools that it was made from. Times are microseconds since 1970: `ts_min` and `ts_max` are
    those of rows with a possible time (both None without any), `clock_rows` counts those with an impossible one.
    `fault` is the reason in `quarantine` if the whole file is set aside. `is_present` is false if the file was deleted.
    """

    source: str
    path: str
    size: int
    table: str
    cluster_id: str
    broker_id: int
    boot_id: str
    low: int
    high: int
    first_seq: int
    last_seq: int
    opened_us: int
    closed_us: int
    end: str
    rows: int
    ts_min: int | None
    ts_max: int | None
    clock_rows: int = 0
    siblings: Mapping[str, int] = field(default_factory=dict)
    """Number of rows of each table in the segment."""
    fault: str | None = None
    detail: str | None = None
    is_present: bool = True
    unbuilt: tuple[int, ...] = ()
    """Hours with events of the file that were not built with the file yet, or never will be."""
    counts: bool = True
    """Whether the file counts; False for a file that was left out at the last scan, such as a copy."""
    changed_ns: int | None = None
    """Time when the file was written, according to its store, in nanoseconds; None if the store does not report it."""

    @property
    def boot(self) -> Boot:
        return self.cluster_id, self.broker_id, self.boot_id

    @property
    def earliest_us(self) -> int:
        """Return the earliest possible time of the file's rows."""
        return self.opened_us - CLOCK_BACK_US

    @property
    def latest_us(self) -> int:
        """Return the latest possible time of the file's rows."""
        return self.closed_us + CLOCK_AHEAD_US

    def hours(self) -> range:
        """Return the hours of events that the file's rows may have."""
        if self.ts_min is None or self.ts_max is None or self.fault is not None:
            return range(0)
        return range(hour_at(self.ts_min), hour_at(self.ts_max) + 1)


class SetAside(NamedTuple):
    """A file that was set aside: a row of `quarantine`."""

    path: str
    reason: str
    event_date: date | None = None
    cluster_id: str | None = None
    broker_id: int | None = None
    table: str | None = None
    rows: int | None = None
    detail: str | None = None


class Hole(NamedTuple):
    """Missing numbers, without an event or a gap, at the time that they count for.

    One of them may be an open boot's end.
    """

    at_us: int
    cluster_id: str
    broker_id: int
    holes: int
    open_since_us: int | None = None


def of_tables(entries: Iterable[SegmentEntry], tables: Collection[str] | None) -> Iterator[SegmentEntry]:
    """Yield the entries of these tables; None is all tables."""
    return (entry for entry in entries if tables is None or entry.table in tables)


def with_shared_names(entry: SegmentEntry) -> SegmentEntry:
    """Return the entry with interned names.

    There may be a hundred thousand entries: equal names of all entries then are one object in memory.
    """
    return replace(
        entry,
        source=intern(entry.source),
        table=intern(entry.table),
        cluster_id=intern(entry.cluster_id),
        boot_id=intern(entry.boot_id),
        end=intern(entry.end),
    )


def day_of(us: int) -> date:
    return datetime.fromtimestamp(us / 1_000_000, UTC).date()


def set_aside(entry: SegmentEntry, reason: str, detail: str | None, rows: int | None) -> SetAside:
    day = day_of(entry.opened_us)
    return SetAside(entry.path, reason, day, entry.cluster_id, entry.broker_id, entry.table, rows, detail)


@dataclass(frozen=True)
class Catalogue:
    """All files of the audit log that a reader has found.

    - `entries`: the files whose events count.
    - `apart`: the files that are set aside.
    - `told`: all files with a readable footer.
    - `left_out`: files with some events that files in `entries` have, too, and some that none of them has.
    """

    entries: tuple[SegmentEntry, ...]
    apart: tuple[SetAside, ...]
    told: tuple[SegmentEntry, ...]
    left_out: tuple[SegmentEntry, ...] = ()

    def touching(self, hours: Iterable[int]) -> list[SegmentEntry]:
        """Return the files that exist and may have events of these hours."""
        found = {id(entry): entry for hour in hours for entry in self._present_by_hour.get(hour, ())}
        return sorted(found.values(), key=_order)

    @cached_property
    def _present_by_hour(self) -> Mapping[int, Sequence[SegmentEntry]]:
        """Index by hour: a year has many files, and is queried hour by hour."""
        found: dict[int, list[SegmentEntry]] = defaultdict(list)
        for entry in self.entries:
            if entry.is_present:
                for hour in entry.hours():
                    found[hour].append(entry)
        return found


def catalogue(present: Sequence[SegmentEntry], former: Sequence[SegmentEntry], unread: Sequence[SetAside]) -> Catalogue:
    """Build the catalogue of the existing files, and of those that existed at the last build.

    `unread` are files without a readable footer. Deleted files count as long as no other file has their events.
    """
    kept: list[SegmentEntry] = []
    left_out: list[SegmentEntry] = []
    apart = list(unread)
    by_boot: dict[tuple[str, Boot], list[SegmentEntry]] = defaultdict(list)
    for entry in present:
        if entry.fault is not None:
            apart.append(set_aside(entry, entry.fault, entry.detail, entry.rows))
        else:
            by_boot[entry.table, entry.boot].append(entry)
    damaged = {each.path for each in apart}
    for entries in by_boot.values():
        found, repeated = _without_repeats(entries)
        kept += found
        apart += (told for _, told in repeated)
        left_out += (entry for entry, told in repeated if told.reason != "duplicate")
    kept += _gone([*kept, *left_out], former)
    kept = _with_unbuilt(kept, former)
    gone = [entry for entry in kept if not entry.is_present]
    apart = _with_what_results_have(apart, gone)
    apart += _without_results([entry for entry in kept if entry.path not in damaged], hours_that_lost(kept))
    for entry in kept:
        if entry.clock_rows:
            detail = f"{entry.clock_rows} of {entry.rows + entry.clock_rows} rows have an impossible time"
            apart.append(set_aside(entry, "clock", detail, entry.clock_rows))
    ordered = tuple(sorted(apart, key=lambda each: (each.path, each.reason, each.event_date or date.min)))
    return Catalogue(tuple(sorted(kept, key=_order)), ordered, (*present, *gone), tuple(left_out))


def _order(entry: SegmentEntry) -> tuple[str, Boot, int, int, str, str]:
    return entry.table, entry.boot, entry.low, -entry.high, entry.path, entry.source


def _without_repeats(entries: Iterable[SegmentEntry]) -> tuple[list[SegmentEntry], list[tuple[SegmentEntry, SetAside]]]:
    """Select the files that count: their ranges of spools do not overlap.

    Files are taken in the order of their first spools; of several with the same first spool, the one with the last end
    is taken. Also returns the other files, each with the reason: it was merged into these, is a copy, or overlaps in
    part. A file counts with all of its rows or with none.
    """
    kept: list[SegmentEntry] = []
    others: list[tuple[SegmentEntry, SegmentEntry]] = []
    for entry in sorted(entries, key=_order):
        if not kept or entry.low > kept[-1].high:
            kept.append(entry)
        else:
            others.append((entry, kept[-1]))
    counting = NumberRanges((entry.low, entry.high) for entry in kept)
    return kept, [(entry, _repeating(entry, other, counting)) for entry, other in others]


def _repeating(entry: SegmentEntry, other: SegmentEntry, counting: NumberRanges) -> SetAside:
    if counting.has(entry.low, entry.high):
        return set_aside(entry, "duplicate", f"its events are in {other.path}", entry.rows)
    detail = (
        f"some of its events are also in {other.path}: this file is left out, and events that only it has are not "
        "in any result"
    )
    return set_aside(entry, "corrupt", detail, entry.rows)


def _gone(there: Iterable[SegmentEntry], former: Iterable[SegmentEntry]) -> Iterator[SegmentEntry]:
    ranges = _ranges(there)
    for entry in former:
        if entry.fault is None and not _are_all_in(ranges, entry.table, entry):
            yield replace(entry, is_present=False)


def _with_unbuilt(kept: Iterable[SegmentEntry], former: Iterable[SegmentEntry]) -> list[SegmentEntry]:
    """Set the unbuilt hours: all hours of new files, and of other files the unbuilt hours of their spools."""
    before = list(former)
    known = _ranges(before)
    unbuilt: dict[tuple[str, Boot, int], NumberRanges] = defaultdict(NumberRanges)
    for entry in sorted(before, key=_order):
        for hour in entry.unbuilt:
            unbuilt[entry.table, entry.boot, hour].add(entry.low, entry.high)
    found = []
    for entry in kept:
        hours: Iterable[int] = entry.hours()
        if not is_new(entry, known):
            hours = [
                hour
                for hour in hours
                if (waiting := unbuilt.get((entry.table, entry.boot, hour))) and waiting.touch(entry.low, entry.high)
            ]
        unbuilt_now = tuple(hours)
        # There may be a hundred thousand entries: only those that change are copied.
        found.append(entry if unbuilt_now == entry.unbuilt else replace(entry, unbuilt=unbuilt_now))
    return found


def built_with(entries: Iterable[SegmentEntry], hours: Iterable[int]) -> list[SegmentEntry]:
    """Return the entries after these hours have been built with all existing files."""
    built = set(hours)
    return [
        replace(entry, unbuilt=tuple(hour for hour in entry.unbuilt if hour not in built))
        if entry.is_present and built.intersection(entry.unbuilt)
        else entry
        for entry in entries
    ]


def _with_what_results_have(apart: Iterable[SetAside], gone: Iterable[SegmentEntry]) -> list[SetAside]:
    """Complete the rows of files that became damaged after hours were built with them: results have their events."""
    counted = {entry.path: set(entry.hours()).difference(entry.unbuilt) for entry in gone}
    return [
        each._replace(
            detail=f"{each.detail}; the results of {shown(counted[each.path])} were built before and include it"
        )
        if counted.get(each.path)
        else each
        for each in apart
    ]


def _without_results(entries: Iterable[SegmentEntry], lost: Container[int]) -> Iterator[SetAside]:
    """Yield, by day, files that came after others of an hour were deleted, and those deleted before it was built."""
    for entry in entries:
        for day, hours in by_day(entry.unbuilt).items():
            if not entry.is_present:
                detail = (
                    f"the file was deleted before {shown(hours)} was built: its events of that time are not in any "
                    "result"
                )
                rows = entry.rows if len(hours) == len(entry.hours()) else None
                yield set_aside(entry, LOST, detail, rows)._replace(event_date=day)
            elif late := [hour for hour in hours if hour in lost]:
                detail = (
                    f"the file came after other files with events of {shown(late)} were deleted: the results of that "
                    "time stay unchanged"
                )
                yield set_aside(entry, "expired", detail, None)._replace(event_date=day)


def _ranges(entries: Iterable[SegmentEntry]) -> Ranges:
    found: Ranges = defaultdict(NumberRanges)
    for entry in entries:
        found[entry.table, entry.boot].add(entry.low, entry.high)
    return found


def _are_all_in(ranges: Ranges, table: str, entry: SegmentEntry) -> bool:
    """Whether files of this table were made from all the spools that the entry was made from."""
    of_boot = ranges.get((table, entry.boot))
    return of_boot is not None and of_boot.has(entry.low, entry.high)


def is_new(entry: SegmentEntry, known: Ranges) -> bool:
    """Return whether the file exists and some of its spools are new."""
    return entry.is_present and not _are_all_in(known, entry.table, entry)


def touched_hours(found: Catalogue, former: Iterable[SegmentEntry]) -> set[int]:
    """Return the hours that lack existing files, and those built with files that are left out now.

    Hours with deleted files are excluded: they stay unchanged until these files are back.
    """
    counted = {(entry.source, entry.path) for entry in former}
    now_less = {hour for each in found.left_out if (each.source, each.path) in counted for hour in each.hours()}
    waiting = {hour for entry in found.entries if entry.is_present for hour in entry.unbuilt}
    return (waiting | now_less) - hours_that_lost(found.entries)


def hours_that_lost(entries: Iterable[SegmentEntry]) -> set[int]:
    """Return the hours that were built with files that are deleted now: a new build would have fewer events."""
    return {hour for entry in entries if not entry.is_present for hour in set(entry.hours()).difference(entry.unbuilt)}


def holes(found: Catalogue, deleted: Mapping[Boot, int], settled_us: int) -> list[Hole]:
    """Count the missing numbers: those between segments, rows of missing files, and one for a boot that lacks its end.

    `deleted` is, by boot, the last number that retention deleted. What brokers recorded before `settled_us` should have
    landed: a broker's last boot is open if it has no end, and no segment that ended later.
    """
    counted: dict[tuple[int, str, int], int] = defaultdict(int)
    opened: dict[tuple[int, str, int], int] = {}
    names = {(entry.table, _name(entry.path)) for entry in found.told}
    names |= {(each.path.partition("/")[0], _name(each.path)) for each in found.apart}
    ranges = _ranges(found.told)
    segments: dict[Boot, dict[tuple[int, int], SegmentEntry]] = defaultdict(dict)
    for entry in found.told:
        segments[entry.boot].setdefault((entry.first_seq, entry.last_seq), entry)
    latest = {boot[:2]: boot for boot in sorted(segments)}
    for boot, by_numbers in segments.items():
        cluster_id, broker_id, _ = boot
        expected = deleted.get(boot, 0) + 1
        for (first_seq, last_seq), entry in sorted(by_numbers.items()):
            place = entry.opened_us, cluster_id, broker_id
            counted[place] += max(first_seq - expected, 0) + sum(_missing_files(entry, names, ranges))
            expected = max(expected, last_seq + 1)
        # Not the last one in the order of first numbers: a merged file may begin before it, and end after it.
        last = max(by_numbers.values(), key=_last_number)
        if last.end == _GOES_ON:
            place = last.closed_us, cluster_id, broker_id
            if latest[boot[:2]] != boot:
                counted[place] += 1
            elif last.closed_us < settled_us:
                counted[place] += 1
                opened[place] = last.closed_us
    return [Hole(*place, number, opened.get(place)) for place, number in sorted(counted.items()) if number]


def _last_number(entry: SegmentEntry) -> tuple[int, int]:
    return entry.last_seq, entry.high


def _missing_files(entry: SegmentEntry, names: Container[tuple[str, str]], ranges: Ranges) -> Iterator[int]:
    """Yield the row counts of tables that have no file, according to the footer of this one."""
    if entry.is_present:
        name = _name(entry.path)
        for table, rows in entry.siblings.items():
            if (table, name) not in names and not _are_all_in(ranges, table, entry):
                yield rows


def _name(path: str) -> str:
    return path.rpartition("/")[2]
