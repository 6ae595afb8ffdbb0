"""Which files of segments count, which are set aside and why, and which days they have events of. Pure.

Definitions of what is set aside are those of the table `quarantine`, of holes those of `completeness`.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from audit_pipeline.ranges import NumberRanges

DAY_US = 24 * 3_600_000_000
CLOCK_BACK_US = 7 * DAY_US
CLOCK_AHEAD_US = 5 * 60_000_000

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
    too_late_for: tuple[date, ...] = ()
    """Days that it has events of and that could not be built with them: files of them had gone before it came."""

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


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All files that are known: `entries` count, of `apart` nothing does. `told`: all whose footer can be read."""

    entries: tuple[SegmentEntry, ...]
    apart: tuple[SetAside, ...]
    told: tuple[SegmentEntry, ...]

    def touching(self, days: Iterable[date]) -> list[SegmentEntry]:
        """Files that are there and may have events of these days."""
        wanted = set(days)
        return [entry for entry in self.entries if entry.is_present and entry.days() & wanted]


def catalogue(present: Sequence[SegmentEntry], former: Sequence[SegmentEntry], unread: Sequence[SetAside]) -> Catalogue:
    """Of the files that are there, and of those that were when the last build looked.

    `unread` are those whose footer says nothing. Files that have gone count as long as no other file has their events.
    """
    kept: list[SegmentEntry] = []
    apart = list(unread)
    by_boot: dict[tuple[str, Boot], list[SegmentEntry]] = defaultdict(list)
    for entry in present:
        if entry.fault is not None:
            apart.append(set_aside(entry, entry.fault, entry.detail, entry.rows))
        else:
            by_boot[entry.table, entry.boot].append(entry)
    for entries in by_boot.values():
        found, repeated = _without_repeats(entries)
        kept += found
        apart += repeated
    kept += _gone(kept, former)
    kept = _with_too_late(kept, former)
    for entry in kept:
        for day in entry.too_late_for:
            detail = f"it came when other files with events of {day} had been deleted: that day stays as it was"
            apart.append(set_aside(entry, "expired", detail, None)._replace(event_date=day))
        if entry.clock_rows:
            detail = f"{entry.clock_rows} of {entry.rows + entry.clock_rows} rows have an impossible time"
            apart.append(set_aside(entry, "clock", detail, entry.clock_rows))
    gone = [entry for entry in kept if not entry.is_present]
    ordered = tuple(sorted(apart, key=lambda each: (each.path, each.reason)))
    return Catalogue(tuple(sorted(kept, key=_order)), ordered, (*present, *gone))


def _order(entry: SegmentEntry) -> tuple[str, Boot, int, int, str]:
    return entry.table, entry.boot, entry.low, -entry.high, entry.path


def _without_repeats(entries: Iterable[SegmentEntry]) -> tuple[list[SegmentEntry], list[SetAside]]:
    """The widest file of each range of spools counts: the others were merged into it, or are copies."""
    kept: list[SegmentEntry] = []
    repeated = []
    for entry in sorted(entries, key=_order):
        last = kept[-1] if kept else None
        if last is None or entry.low > last.high:
            kept.append(entry)
        elif entry.high <= last.high:
            repeated.append(set_aside(entry, "duplicate", f"its events are in {last.path}", entry.rows))
        else:
            repeated.append(set_aside(entry, "corrupt", f"some of its events are in {last.path}, too", entry.rows))
    return kept, repeated


def _gone(present: Iterable[SegmentEntry], former: Iterable[SegmentEntry]) -> Iterator[SegmentEntry]:
    ranges = _ranges(present)
    for entry in former:
        if entry.fault is None and not _are_all_in(ranges, entry.table, entry):
            yield replace(entry, is_present=False)


def _with_too_late(kept: Sequence[SegmentEntry], former: Iterable[SegmentEntry]) -> list[SegmentEntry]:
    """Of files that were new then, or were merged of such: as long as what the day was built from is not back."""
    lost = days_that_lost(kept)
    before = list(former)
    known = _ranges(before)
    late = [entry for entry in before if entry.too_late_for]
    return [replace(entry, too_late_for=_sorted(_may_be_late(entry, known, late) & lost)) for entry in kept]


def _may_be_late(entry: SegmentEntry, known: Ranges, late: Iterable[SegmentEntry]) -> set[date]:
    if is_new(entry, known):
        return entry.days()
    return {day for each in late if _has(entry, each) for day in each.too_late_for}


def _has(entry: SegmentEntry, part: SegmentEntry) -> bool:
    is_same_boot = (entry.table, entry.boot) == (part.table, part.boot)
    return is_same_boot and entry.low <= part.low and part.high <= entry.high


def _sorted(days: Iterable[date]) -> tuple[date, ...]:
    return tuple(sorted(days))


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


def touched_days(now: Iterable[SegmentEntry], former: Iterable[SegmentEntry]) -> set[date]:
    """Days that files which were not there before have events of; a merged file is none when its parts were there.

    And those that files came too late for, when what the days were built from is back.
    """
    before, present = list(former), list(now)
    known = _ranges(before)
    new = {day for entry in present if is_new(entry, known) for day in entry.days() if day not in entry.too_late_for}
    return new | {day for entry in before for day in entry.too_late_for} - days_that_lost(present)


def days_that_lost(entries: Iterable[SegmentEntry]) -> set[date]:
    """Days that have events in files which have gone: built anew they would be less than they are."""
    return {day for entry in entries if not entry.is_present for day in entry.days()}


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
