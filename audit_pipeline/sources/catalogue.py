"""Which files of segments count, which are set aside and why, and which days they have events of. Pure.

Definitions of what is set aside are those of the table `quarantine`, of holes those of `completeness`.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from audit_pipeline.ranges import NumberRanges

DAY_US = 24 * 3_600_000_000
CLOCK_BACK_US = 7 * DAY_US
CLOCK_AHEAD_US = 5 * 60_000_000
LOST = "lost"
"""The reason of `quarantine` of files that had gone before a day of theirs was built: `event_date` is that day."""

Boot = tuple[str, int, str]
Ranges = dict[tuple[str, Boot], NumberRanges]
"""By table and boot: the spools that files were made of."""


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """One file of a segment, as its footer and its columns' statistics tell it.

    `low` to `high` are the spools that it was made of. Times in microseconds since 1970: `ts_min` and `ts_max` are of
    rows with a possible time (both None without any), `clock_rows` how many have an impossible one. `fault` is a reason
    of `quarantine` for which all of it is set aside. `is_present` is false when its file has gone.
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
    """Tables of the segment with their rows."""
    fault: str | None = None
    detail: str | None = None
    is_present: bool = True
    unbuilt: tuple[date, ...] = ()
    """Days that it has events of and that were not built with them yet, or never will be."""
    counts: bool = True
    """False of what was left out at the last look, such as a copy."""
    changed_ns: int | None = None
    """When the file was written, as its place says; None where it does not."""

    @property
    def boot(self) -> Boot:
        return self.cluster_id, self.broker_id, self.boot_id

    @property
    def earliest_us(self) -> int:
        """Rows before it have an impossible time."""
        return self.opened_us - CLOCK_BACK_US

    @property
    def latest_us(self) -> int:
        """Rows behind it have an impossible time."""
        return self.closed_us + CLOCK_AHEAD_US

    def days(self) -> set[date]:
        """Event-days that its rows may be of."""
        if self.ts_min is None or self.ts_max is None or self.fault is not None:
            return set()
        first, last = day_of(self.ts_min), day_of(self.ts_max)
        return {first + timedelta(days=number) for number in range((last - first).days + 1)}


class SetAside(NamedTuple):
    """A row of `quarantine`."""

    path: str
    reason: str
    event_date: date | None = None
    cluster_id: str | None = None
    broker_id: int | None = None
    table: str | None = None
    rows: int | None = None
    detail: str | None = None


class Hole(NamedTuple):
    """Numbers that nothing tells of, by the day that they count for."""

    event_date: date
    cluster_id: str
    broker_id: int
    holes: int


def day_of(us: int) -> date:
    return datetime.fromtimestamp(us / 1_000_000, UTC).date()


def set_aside(entry: SegmentEntry, reason: str, detail: str | None, rows: int | None) -> SetAside:
    day = day_of(entry.opened_us)
    return SetAside(entry.path, reason, day, entry.cluster_id, entry.broker_id, entry.table, rows, detail)


@dataclass(frozen=True)
class Catalogue:
    """All files that are known: `entries` count, of `apart` nothing does. `told`: all whose footer can be read.

    `left_out` are those of which some events are in files that count and others are not.
    """

    entries: tuple[SegmentEntry, ...]
    apart: tuple[SetAside, ...]
    told: tuple[SegmentEntry, ...]
    left_out: tuple[SegmentEntry, ...] = ()

    def touching(self, days: Iterable[date]) -> list[SegmentEntry]:
        """Files that are there and may have events of these days."""
        found = {id(entry): entry for day in days for entry in self._present_by_day.get(day, ())}
        return sorted(found.values(), key=_order)

    @cached_property
    def _present_by_day(self) -> Mapping[date, Sequence[SegmentEntry]]:
        """A year has many files, and is asked for day by day."""
        found: dict[date, list[SegmentEntry]] = defaultdict(list)
        for entry in self.entries:
            if entry.is_present:
                for day in entry.days():
                    found[day].append(entry)
        return found


def catalogue(present: Sequence[SegmentEntry], former: Sequence[SegmentEntry], unread: Sequence[SetAside]) -> Catalogue:
    """Of the files that are there, and of those that were when the last build looked.

    `unread` are those whose footer says nothing. Files that have gone count as long as no other file has their events.
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
    apart += _without_results([entry for entry in kept if entry.path not in damaged], days_that_lost(kept))
    for entry in kept:
        if entry.clock_rows:
            detail = f"{entry.clock_rows} of {entry.rows + entry.clock_rows} rows have an impossible time"
            apart.append(set_aside(entry, "clock", detail, entry.clock_rows))
    ordered = tuple(sorted(apart, key=lambda each: (each.path, each.reason, each.event_date or date.min)))
    return Catalogue(tuple(sorted(kept, key=_order)), ordered, (*present, *gone), tuple(left_out))


def _order(entry: SegmentEntry) -> tuple[str, Boot, int, int, str, str]:
    return entry.table, entry.boot, entry.low, -entry.high, entry.path, entry.source


def _without_repeats(entries: Iterable[SegmentEntry]) -> tuple[list[SegmentEntry], list[tuple[SegmentEntry, SetAside]]]:
    """From the first spool on, the widest file counts that shares none with one that counts already.

    The others were merged into it, or are copies, or nobody knows: of a file only all rows count, or none.
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
    detail = f"some of its events are in {other.path}, too: it is left out, and what only it has is in no result"
    return set_aside(entry, "corrupt", detail, entry.rows)


def _gone(there: Iterable[SegmentEntry], former: Iterable[SegmentEntry]) -> Iterator[SegmentEntry]:
    ranges = _ranges(there)
    for entry in former:
        if entry.fault is None and not _are_all_in(ranges, entry.table, entry):
            yield replace(entry, is_present=False)


def _with_unbuilt(kept: Iterable[SegmentEntry], former: Iterable[SegmentEntry]) -> list[SegmentEntry]:
    """Of files that are new all their days; of others those that were of what they are made of, or a part of."""
    before = list(former)
    known = _ranges(before)
    unbuilt: dict[tuple[str, Boot, date], NumberRanges] = defaultdict(NumberRanges)
    for entry in sorted(before, key=_order):
        for day in entry.unbuilt:
            unbuilt[entry.table, entry.boot, day].add(entry.low, entry.high)
    found = []
    for entry in kept:
        days = entry.days()
        if not is_new(entry, known):
            days = {
                day
                for day in days
                if (waiting := unbuilt.get((entry.table, entry.boot, day))) and waiting.touch(entry.low, entry.high)
            }
        found.append(replace(entry, unbuilt=tuple(sorted(days))))
    return found


def built_with(entries: Iterable[SegmentEntry], days: Iterable[date]) -> list[SegmentEntry]:
    """The entries when these days have been built with all of them that are there."""
    built = set(days)
    return [
        replace(entry, unbuilt=tuple(day for day in entry.unbuilt if day not in built))
        if entry.is_present and built.intersection(entry.unbuilt)
        else entry
        for entry in entries
    ]


def _with_what_results_have(apart: Iterable[SetAside], gone: Iterable[SegmentEntry]) -> list[SetAside]:
    """What is damaged now and was not when days were built with it is in their results, and its row says so."""
    counted = {entry.path: sorted(entry.days().difference(entry.unbuilt)) for entry in gone}
    return [
        each._replace(
            detail=f"{each.detail}; the results of {_shown(counted[each.path])} were built before and have it"
        )
        if counted.get(each.path)
        else each
        for each in apart
    ]


def _without_results(entries: Iterable[SegmentEntry], lost: Container[date]) -> Iterator[SetAside]:
    """Files, by day, that came when others of the day had gone, and those that went before the day was built."""
    for entry in entries:
        for day in entry.unbuilt:
            if not entry.is_present:
                detail = f"it had gone before {day} was built: its events of that day are in no result"
                rows = entry.rows if len(entry.days()) == 1 else None
                yield set_aside(entry, LOST, detail, rows)._replace(event_date=day)
            elif day in lost:
                detail = f"it came when other files with events of {day} had been deleted: that day stays as it was"
                yield set_aside(entry, "expired", detail, None)._replace(event_date=day)


def _shown(days: Sequence[date]) -> str:
    return f"{days[0]}" if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _ranges(entries: Iterable[SegmentEntry]) -> Ranges:
    found: Ranges = defaultdict(NumberRanges)
    for entry in entries:
        found[entry.table, entry.boot].add(entry.low, entry.high)
    return found


def _are_all_in(ranges: Ranges, table: str, entry: SegmentEntry) -> bool:
    """Whether files of this table were made of all the spools that the entry's was made of."""
    of_boot = ranges.get((table, entry.boot))
    return of_boot is not None and of_boot.has(entry.low, entry.high)


def is_new(entry: SegmentEntry, known: Ranges) -> bool:
    """Whether the file is there, and these spools were not all known."""
    return entry.is_present and not _are_all_in(known, entry.table, entry)


def touched_days(found: Catalogue, former: Iterable[SegmentEntry]) -> set[date]:
    """Days that were not built with all files that are there, and those built with files that are left out now.

    But for days whose files have gone: they stay as they are until these are back.
    """
    counted = {(entry.source, entry.path) for entry in former}
    now_less = {day for each in found.left_out if (each.source, each.path) in counted for day in each.days()}
    waiting = {day for entry in found.entries if entry.is_present for day in entry.unbuilt}
    return (waiting | now_less) - days_that_lost(found.entries)


def days_that_lost(entries: Iterable[SegmentEntry]) -> set[date]:
    """Days that were built with files which have gone: built anew they would be less than they are."""
    return {day for entry in entries if not entry.is_present for day in entry.days().difference(entry.unbuilt)}


def holes(found: Catalogue, deleted: Mapping[Boot, int]) -> list[Hole]:
    """Numbers between segments, rows of files that are not there, and one for a boot that goes on without an end.

    `deleted`: by boot the last number that retention took.
    """
    counted: dict[tuple[date, str, int], int] = defaultdict(int)
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
        last = None
        for (first_seq, last_seq), entry in sorted(by_numbers.items()):
            day = day_of(entry.opened_us), cluster_id, broker_id
            counted[day] += max(first_seq - expected, 0) + sum(_missing_files(entry, names, ranges))
            expected, last = max(expected, last_seq + 1), entry
        if last is not None and last.end == "next" and latest[boot[:2]] != boot:
            counted[day_of(last.closed_us), cluster_id, broker_id] += 1
    return [Hole(*key, number) for key, number in sorted(counted.items()) if number]


def _missing_files(entry: SegmentEntry, names: Container[tuple[str, str]], ranges: Ranges) -> Iterator[int]:
    """Rows of the segment's tables that have no file, as the footer of this one tells them."""
    if entry.is_present:
        name = _name(entry.path)
        for table, rows in entry.siblings.items():
            if (table, name) not in names and not _are_all_in(ranges, table, entry):
                yield rows


def _name(path: str) -> str:
    return path.rpartition("/")[2]
