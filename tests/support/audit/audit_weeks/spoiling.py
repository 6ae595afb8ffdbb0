"""Faults between a broker's segment and its readers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from audit_pipeline.spool.segment import SegmentFile, folder_of, packed, segment_name
from tests.support.audit.audit_weeks.truth import Truth

_HOUR_US: Final = 3_600_000_000
_ON_SECOND_BROKER: Final = ("skewed", "torn", "flipped", "version", "hole", "late", "copied")


class Landed(NamedTuple):
    """A file as it arrives: `batch` is the day of the week from 0, and -1 for files that arrive last."""

    batch: int
    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """Which segments are spoiled, and how. The first brokers of both clusters, which mirror, lose nothing."""

    spoils: Sequence[str]
    segments: int
    clusters: int
    brokers: int

    def spoil_of(self, cluster: int, broker: int, number: int) -> str:
        """The fault of a segment: one of SPOILS, or nothing. The second of the two segments to merge has "merging"."""
        is_last_of_all = (cluster, broker, number) == (self.clusters - 1, self.brokers - 1, self.segments - 1)
        if "future" in self.spoils and is_last_of_all and (cluster, broker) != (0, 0):
            return "future"
        if (cluster, broker) == (0, 0):
            return self._of_first(number)
        if (cluster, broker) != (0, 1):
            return ""
        wanted = [spoil for spoil in _ON_SECOND_BROKER if spoil in self.spoils]
        if len(wanted) > self.segments - 2:
            raise ValueError(f"{len(wanted)} spoils need more than {self.segments} segments of a broker")
        places = {1 + place * (self.segments - 2) // len(wanted): spoil for place, spoil in enumerate(wanted)}
        return places.get(number, "")

    def _of_first(self, number: int) -> str:
        places = {"gap": self.segments - 1, "merged": 0, "merging": 1}
        wanted = {*self.spoils, "merging"} if "merged" in self.spoils else set(self.spoils)
        return next((spoil for spoil, place in places.items() if place == number and spoil in wanted), "")


def spoiled(
    files: Sequence[SegmentFile], spoil: str, day: int, held: dict[tuple[int, int], list[SegmentFile]], truth: Truth
) -> Iterator[Landed]:
    """The files as they land. `held` keeps those that are to be merged."""
    paths = {file.path.partition("/")[0]: file.path for file in files}
    if spoil == "hole":
        return
    if spoil in ("version", "future"):
        truth.set_aside |= {(path, spoil) for path in paths.values()}
    for file in files:
        table = file.path.partition("/")[0]
        data = file.data
        if spoil == "torn" and table == "partition":
            data = data[: len(data) * 3 // 5]
        if spoil == "flipped" and table == "request":
            data = flipped(data, "total_us")
        if data != file.data:
            truth.set_aside.add((file.path, "corrupt"))
        yield Landed(-1 if spoil == "late" else day, file.path, data)
        if spoil == "copied":
            other = f"{folder_of(table, file.footer.opened_us + _HOUR_US)}/{file.path.rpartition('/')[2]}"
            truth.set_aside.add((other, "duplicate"))
            yield Landed(day, other, data)
    if spoil == "skewed":
        _count_impossible(files, truth)
    if spoil == "merged":
        held[0, 0] = list(files)
    if spoil == "merging":
        originals = held.pop((0, 0))
        truth.set_aside |= {(file.path, "duplicate") for file in (*originals, *files)}
        for file in _merged(originals, files):
            yield Landed(day, file.path, file.data)


def flipped(data: bytes, column: str) -> bytes:
    """The file with another byte at the end of the column's last page."""
    group = pq.read_metadata(pa.BufferReader(data)).row_group(0)
    chunk = next(
        group.column(place) for place in range(group.num_columns) if group.column(place).path_in_schema == column
    )
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    end = begin + chunk.total_compressed_size
    return data[: end - 1] + bytes([data[end - 1] ^ 0x55]) + data[end:]


def _count_impossible(files: Sequence[SegmentFile], truth: Truth) -> None:
    for file in files:
        times = pq.read_table(pa.BufferReader(file.data), columns=["ts"])["ts"].cast(pa.int64()).to_numpy()
        early, late = file.footer.opened_us - 7 * 24 * _HOUR_US, file.footer.closed_us + _HOUR_US // 12
        count = int(((times < early) | (times > late)).sum())
        if count:
            truth.set_aside.add((file.path, "clock"))
            truth.impossible_rows[file.path] += count


def _merged(first: Sequence[SegmentFile], second: Sequence[SegmentFile]) -> list[SegmentFile]:
    """The files that compaction makes of two consecutive segments."""
    low, high = first[0].footer, second[0].footer
    rows = {table: low.rows.get(table, 0) + high.rows.get(table, 0) for table in {*low.rows, *high.rows}}
    footer = replace(
        low,
        segments=(low.segments[0], high.segments[1]),
        last_seq=high.last_seq,
        closed_us=high.closed_us,
        end=high.end,
        rows=rows,
    )
    number = f"{footer.segments[0]:08d}-{footer.segments[1]:08d}"
    name = segment_name(footer.cluster_id, footer.broker_id, footer.boot_id, number)
    found = []
    for table in sorted(rows):
        parts = [
            pq.read_table(pa.BufferReader(file.data)) for file in (*first, *second) if file.path.startswith(f"{table}/")
        ]
        path = f"{folder_of(table, footer.opened_us)}/{name}"
        found.append(SegmentFile(path, footer, packed(pa.concat_tables(parts), footer)))
    return found
