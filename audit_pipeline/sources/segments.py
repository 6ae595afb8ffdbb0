"""Scans landed segments: the content of their footers and statistics, file by file. Shell over Arrow."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from audit_pipeline.contract import contract
from audit_pipeline.sources.catalogue import CLOCK_AHEAD_US, SegmentEntry, SetAside, with_shared_names
from audit_pipeline.spool.listing import SegmentPath, segment_paths
from audit_pipeline.spool.segment import Footer, NoSegmentError, parse_segment_path, read_footer
from audit_pipeline.spool.stored_segment import LOOKS_AT_ONCE, has_gone, row_groups_at
from audit_pipeline.spool.tables import is_of_table
from audit_pipeline.spool.targets import Target

_MAY_BE_MENDED: Final = ("corrupt", "version")
"""Faults that are checked again: the file may have been restored with the same size, or its version be supported."""
_US_MAX: Final = 253_402_300_799_999_999 - CLOCK_AHEAD_US
"""The end of the year 9999, the last that dates support."""
_LOOKS_MAX: Final = 5
_FILES_AT_ONCE: Final = 1_000
"""Files that wait for a thread: each takes 1 kB."""
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_US = timedelta(microseconds=1)

Known = Mapping[tuple[str, str, int], SegmentEntry]
"""Entries of the last build, by source, path and size of the file."""


def look(sources: Mapping[str, Target], known: Known, now_us: int) -> tuple[list[SegmentEntry], list[SetAside]]:
    """Return the entries of all files of these sources, and the files without a readable footer.

    `sources` are keyed by URI. Raises OSError if a source does not answer, or if files are deleted as fast as they are
    read.
    """
    entries: list[SegmentEntry] = []
    unread: list[SetAside] = []
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
        for source, target in sources.items():
            for each in _all_of(source, target, known, pool):
                if isinstance(each, SetAside):
                    unread.append(each)
                else:
                    entries.append(in_the_future(each, now_us))
    return entries, unread


def _all_of(source: str, target: Target, known: Known, pool: ThreadPoolExecutor) -> list[SegmentEntry | SetAside]:
    """Return all files. If one is deleted after the listing, its replacement was not listed: list all again."""
    for _ in range(_LOOKS_MAX):
        read = partial(_read_entry, source, target, known)
        paths = segment_paths(target)
        found: list[SegmentEntry | SetAside | None] = []
        for first in range(0, len(paths), _FILES_AT_ONCE):
            found += pool.map(read, paths[first : first + _FILES_AT_ONCE])
        if None not in found:
            return [each for each in found if each is not None]
    raise OSError(
        f"files of {source} were repeatedly deleted while they were read: check whether another process compacts "
        "it all the time"
    )


def in_the_future(entry: SegmentEntry, now_us: int) -> SegmentEntry:
    """Set or clear the fault `future` of an entry: a file in the future at the last scan may not be any more."""
    if entry.fault not in (None, "future"):
        return entry
    if entry.closed_us <= now_us + CLOCK_AHEAD_US:
        return replace(entry, fault=None, detail=None)
    ended = _EPOCH + timedelta(microseconds=entry.closed_us)
    return replace(
        entry, fault="future", detail=f"by the clock of its broker, the segment ended at {ended:%Y-%m-%d %H:%M:%S}"
    )


def _read_entry(source: str, target: Target, known: Known, file: SegmentPath) -> SegmentEntry | SetAside | None:
    """Return the entry of a file, None if it was deleted meanwhile."""
    former = known.get((source, file.path, file.size))
    if former is not None and former.fault not in _MAY_BE_MENDED and former.changed_ns == file.changed_ns:
        return former
    try:
        metadata, schema = _metadata(target, file.path)
        footer = read_footer(metadata)
        _require_possible(footer)
        entry = with_shared_names(_entry(source, target, file, metadata, schema, footer))
        if former is not None and entry.fault is None:
            # The file could not be read to its end before, or has been rewritten since.
            return _damage(target, entry) or entry
        return entry
    except FileNotFoundError:
        return None
    except NoSegmentError as error:
        day, cluster_id, broker_id = parse_segment_path(file.path) or (None, None, None)
        return SetAside(file.path, "corrupt", day, cluster_id, broker_id, file.table, detail=str(error))


def _metadata(target: Target, path: str) -> tuple[pq.FileMetaData, pa.Schema]:
    """Read the Parquet metadata and the schema of a file.

    The schema is not taken from the metadata: these two would refer to each other, and the 30 kB of each file would
    wait for Python's garbage collector.

    Raises FileNotFoundError, NoSegmentError for a damaged file, OSError if the file cannot be read at all.
    """
    with target.file_system.open_input_file(path) as opened:
        data_is_there = opened.size() > 0 and len(opened.read_at(1, opened.size() - 1)) == 1
        try:
            if not data_is_there:
                raise NoSegmentError("it is empty")
            file = pq.ParquetFile(opened)
            return file.metadata, file.schema_arrow
        except (pa.ArrowException, OSError, ValueError) as error:
            # Arrow reports a store that stopped answering the same way: then this read fails, too.
            opened.read_at(1, 0)
            raise NoSegmentError(f"its footer cannot be read: {error}") from error


def entry_of(source: str, file: SegmentPath, footer: Footer, rows: int) -> SegmentEntry:
    """Return the entry of a file according to its footer, without times."""
    entry = SegmentEntry(
        source=source,
        path=file.path,
        size=file.size,
        changed_ns=file.changed_ns,
        table=file.table,
        cluster_id=footer.cluster_id,
        broker_id=footer.broker_id,
        boot_id=footer.boot_id,
        low=footer.segments[0],
        high=footer.segments[1],
        first_seq=footer.first_seq,
        last_seq=footer.last_seq,
        opened_us=footer.opened_us,
        closed_us=footer.closed_us,
        end=footer.end,
        rows=rows,
        ts_min=None,
        ts_max=None,
        siblings=footer.rows,
    )
    if footer.schema_version != contract().version:
        text = f"schema version {footer.schema_version} is not known, only {contract().version}"
        return replace(entry, fault="version", detail=text)
    return entry


def _entry(
    source: str, target: Target, file: SegmentPath, metadata: pq.FileMetaData, schema: pa.Schema, footer: Footer
) -> SegmentEntry:
    entry = entry_of(source, file, footer, metadata.num_rows)
    if entry.fault is not None:
        return entry
    if file.table not in contract().tables or not is_of_table(schema, file.table):
        return replace(entry, fault="corrupt", detail=f"it does not have the columns of the table {file.table}")
    if not metadata.num_rows:
        return entry
    low, high = _times(metadata)
    clock_rows = 0
    if low is None or high is None or low < entry.earliest_us or high > entry.latest_us:
        try:
            low, high, clock_rows = _possible_times(entry, target)
        except NoSegmentError as error:
            return replace(entry, fault="corrupt", detail=str(error))
    return replace(entry, rows=entry.rows - clock_rows, ts_min=low, ts_max=high, clock_rows=clock_rows)


def _require_possible(footer: Footer) -> None:
    """Raise NoSegmentError for impossible values: a footer has no checksum, and its values are used in computations."""
    rows = footer.rows.values() if isinstance(footer.rows, dict) else [None]
    numbers = [*footer.segments, footer.first_seq, footer.last_seq, *rows]
    is_possible = (
        all(isinstance(each, str) for each in (footer.cluster_id, footer.boot_id, footer.end))
        and _are_within([footer.broker_id], 2**31 - 1)
        and _are_within(numbers, 2**63 - 1)
        and len(footer.segments) == 2
        and footer.segments[0] <= footer.segments[1]
        and _are_within([footer.opened_us, footer.closed_us], _US_MAX)
    )
    if not is_possible:
        raise NoSegmentError("its footer is damaged: it has an impossible number")


def _are_within(numbers: Iterable[object], most: int) -> bool:
    return all(isinstance(each, int) and 0 <= each <= most for each in numbers)


def _times(metadata: pq.FileMetaData) -> tuple[int | None, int | None]:
    """Return the lowest and highest ts in the statistics of all row groups; None if one has no statistics."""
    first = metadata.row_group(0)
    place = next(place for place in range(first.num_columns) if first.column(place).path_in_schema == "ts")
    found = [metadata.row_group(number).column(place).statistics for number in range(metadata.num_row_groups)]
    if any(each is None or not each.has_min_max for each in found):
        return None, None
    try:
        return min(_us(each.min) for each in found), max(_us(each.max) for each in found)
    except OverflowError:
        # Some times are beyond the years that dates support: the rows have to be read.
        return None, None


def _us(moment: datetime) -> int:
    return (moment - _EPOCH) // _US


def _possible_times(entry: SegmentEntry, target: Target) -> tuple[int | None, int | None, int]:
    """Return the lowest and highest possible time, and the number of impossible ones. Raises NoSegmentError."""
    low = high = None
    impossible = 0
    for rows in row_groups_at(entry.path, entry.table, target):
        ts = rows["ts"].cast(pa.int64())
        is_possible = pc.and_(pc.greater_equal(ts, entry.earliest_us), pc.less_equal(ts, entry.latest_us))
        possible = ts.filter(is_possible)
        impossible += len(ts) - len(possible)
        if len(possible):
            bounds = pc.min_max(possible).as_py()
            low = bounds["min"] if low is None else min(low, bounds["min"])
            high = bounds["max"] if high is None else max(high, bounds["max"])
    return low, high, impossible


def damaged(entries: Iterable[SegmentEntry], sources: Mapping[str, Target]) -> list[SegmentEntry]:
    """Return the entries whose files exist and cannot be read to their end, each with its fault."""
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
        found = pool.map(lambda entry: _damage(sources[entry.source], entry), entries)
        return [entry for entry in found if entry is not None]


def _damage(target: Target, entry: SegmentEntry) -> SegmentEntry | None:
    if has_gone(entry.path, target):
        return None
    try:
        for _ in row_groups_at(entry.path, entry.table, target):
            pass
    except NoSegmentError as error:
        return replace(entry, fault="corrupt", detail=str(error))
    return None


def any_has_gone(entries: Iterable[SegmentEntry], sources: Mapping[str, Target]) -> bool:
    """Return whether any of these files does not exist any more."""
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
        return any(pool.map(lambda entry: has_gone(entry.path, sources[entry.source]), entries))
