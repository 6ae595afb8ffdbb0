"""Segments: the Parquet files made from one spool, their names, and the content of their footers. Pure.

    <table>/arrival_date=2026-11-22/arrival_hour=05/<cluster>-<broker>-<boot>-<segment>.parquet

The hour is the one in which the broker opened the spool, so that a spool that is landed twice has the same names.
"""

import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import IO, Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from audit_pipeline.contract import contract
from audit_pipeline.spool.spool import SpoolContent
from audit_pipeline.spool.tables import Gap, arrow_schema, tables_of
from audit_pipeline.spool.targets import DRAFT_PREFIX, SUFFIX

FOOTER_KEY = b"sluicegate.audit"
_ROW_GROUP_ROWS = 256 * 1024
_COMPRESSION_LEVEL = 3
GOES_ON = "next"
"""The value of `end` for a segment that another one follows."""


class NoSegmentError(ValueError):
    """Error for a file that is not a complete segment. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of each file of a segment, about the whole segment. `rows` are by table.

    `segments` has the numbers of the first and the last spool in it. `end` is how the last one ended: next (another
    follows), stopped (the broker was stopped) or killed.
    """

    schema_version: int
    cluster_id: str
    broker_id: int
    boot_id: str
    segments: tuple[int, int]
    first_seq: int
    last_seq: int
    opened_us: int
    closed_us: int
    end: str
    rows: Mapping[str, int]

    @property
    def boot(self) -> tuple[str, int, str]:
        return self.cluster_id, self.broker_id, self.boot_id


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment file to write to `path`, with its footer and its data."""

    path: str
    footer: Footer
    data: bytes


def boot_name(cluster_id: str, broker_id: int, boot_id: str) -> str:
    # Spark ignores files whose names begin with _ or a dot, and cluster IDs may begin with these.
    shown = f"-{cluster_id}" if cluster_id[:1] in "_." else cluster_id
    return f"{shown}-{broker_id}-{boot_id}"


def segment_name(cluster_id: str, broker_id: int, boot_id: str, segment: str) -> str:
    return f"{boot_name(cluster_id, broker_id, boot_id)}-{segment}{SUFFIX}"


_PATH = re.compile(
    r"[^/]+/arrival_date=(\d{4}-\d{2}-\d{2})/arrival_hour=\d{2}/(?:-(?=[_.]))?"
    rf"([^/]+)-(\d+)-[^-/]+-\d+(?:-\d+)?{re.escape(SUFFIX)}"
)


def parse_segment_path(path: str) -> tuple[date, str, int] | None:
    """Return the day on which a file was begun, its cluster and its broker; None for another form of path.

    `folder_of` and `segment_name` make the path. It is the only information on a file whose footer cannot be read.
    """
    found = _PATH.fullmatch(path)
    try:
        return None if found is None else (date.fromisoformat(found[1]), found[2], int(found[3]))
    except ValueError:
        return None


_HOUR = r"arrival_date=\d{4}-\d{2}-\d{2}/arrival_hour=\d{2}"
_NAMED = re.compile(rf"[^/]+/({_HOUR})/{DRAFT_PREFIX}?(.+?)-(\d{{8,12}})(?:-(\d{{8,12}}))?{re.escape(SUFFIX)}")


class SegmentName(NamedTuple):
    """The parts of a segment file's path.

    `hour` is a text that sorts by time, and `boot` a text by `boot_name`. `low` and `high` are the numbers of the first
    and the last spool.
    """

    hour: str
    boot: str
    low: int
    high: int


def named_by(path: str) -> SegmentName | None:
    """Return the parts of a segment's name, from the path of its file; None for a file of another name.

    A draft has its final name.
    """
    found = _NAMED.fullmatch(path)
    return None if found is None else SegmentName(found[1], found[2], int(found[3]), int(found[4] or found[3]))


def is_segment_path(path: str) -> bool:
    """Return whether the path is that of a segment's file, or of a draft of compaction."""
    return path.partition("/")[0] in contract().tables and parse_segment_path(path) is not None


_ONE = re.compile(rf"(.*-)(\d+){re.escape(SUFFIX)}")
_MERGED = re.compile(rf"(.*-)(\d+)-(\d+){re.escape(SUFFIX)}")


def is_merged_into(name: str, others: Iterable[str]) -> bool:
    """Return whether one of the files `others` was merged from several segments, including the one of this name."""
    one = _ONE.fullmatch(name)
    found = [_MERGED.fullmatch(other) for other in others] if one is not None else []
    return one is not None and any(
        other is not None and other[1] == one[1] and int(other[2]) <= int(one[2]) <= int(other[3]) for other in found
    )


def folder_of(table: str, opened_us: int) -> str:
    return f"{table}/{hour_of(opened_us)}"


def hour_of(opened_us: int) -> str:
    """Return the hour as in SegmentName: text that sorts by time."""
    hour = datetime.fromtimestamp(opened_us / 1_000_000, UTC)
    return f"arrival_date={hour:%Y-%m-%d}/arrival_hour={hour:%H}"


def segment_files(content: SpoolContent, gaps: Iterable[Gap], *, ended: bool) -> list[SegmentFile]:
    """Return the files of a complete spool; none if it has no events.

    If a boot ends with an empty spool after others, a file without rows marks the end: the boot is then fully landed.
    """
    header, missing = content.header, tuple(gaps)
    how = content.end.how if content.end is not None else "killed" if ended else GOES_ON
    tables = tables_of(content, missing)
    if not tables and header.first_seq > 1 and how != GOES_ON:
        tables = {"gap": arrow_schema("gap").empty_table()}
    if not tables:
        return []
    covered = [header.first_seq - 1]
    covered += [gap.last_seq for gap in missing] + [block.last_seq for block in content.blocks]
    closed_us = (
        content.end.closed_us
        if content.end is not None
        else max((block.wall_us for block in content.blocks), default=header.opened_us)
    )
    footer = Footer(
        header.schema_version,
        header.cluster_id,
        header.broker_id,
        header.boot_id,
        (header.segment, header.segment),
        header.first_seq,
        max(covered),
        header.opened_us,
        closed_us,
        how,
        {name: table.num_rows for name, table in tables.items()},
    )
    name = segment_name(header.cluster_id, header.broker_id, header.boot_id, f"{header.segment:08d}")
    return [
        SegmentFile(f"{folder_of(table, header.opened_us)}/{name}", footer, packed(rows, footer))
        for table, rows in tables.items()
    ]


def packed(rows: pa.Table, footer: Footer) -> bytes:
    """Return a Parquet file; the same rows give the same bytes with the same version of Arrow."""
    sink = io.BytesIO()
    with SegmentWriter(sink, footer) as writer:
        writer.write(rows)
    return sink.getvalue()


class SegmentWriter:
    """The writer of one file of a segment, in pieces. Every `write` makes one or more row groups."""

    def __init__(self, sink: IO[bytes], footer: Footer) -> None:
        self._sink = sink
        self._footer = footer
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            told = json.dumps({**asdict(self._footer), "segments": list(self._footer.segments)}, sort_keys=True)
            self._writer.add_key_value_metadata({FOOTER_KEY: told})
            self._writer.close()

    def write(self, rows: pa.Table) -> None:
        if self._writer is None:
            self._writer = self._open(rows.schema)
        self._writer.write_table(rows, row_group_size=_ROW_GROUP_ROWS)

    def _open(self, schema: pa.Schema) -> pq.ParquetWriter:
        return pq.ParquetWriter(
            self._sink,
            schema,
            compression="zstd",
            compression_level=_COMPRESSION_LEVEL,
            use_dictionary=[name for name in schema.names if name not in _DELTA],
            column_encoding={name: "DELTA_BINARY_PACKED" for name in schema.names if name in _DELTA},
            store_schema=False,
            write_page_checksum=True,
            coerce_timestamps="us",
        )


_DELTA = frozenset({"seq", "ts", "base_offset", "last_offset", "base_ts", "max_ts", "correlation_id"})
"""Columns that mostly grow from row to row."""


def read_footer(metadata: pq.FileMetaData) -> Footer:
    """Return the footer of a segment file. Raises NoSegmentError."""
    told = (metadata.metadata or {}).get(FOOTER_KEY)
    if told is None:
        raise NoSegmentError("it is a Parquet file, but not of an audit log")
    try:
        fields: dict[str, Any] = json.loads(told)
        # A later minor version may tell more.
        known = {name: fields[name] for name in Footer.__dataclass_fields__}
        return Footer(**{**known, "segments": tuple(fields["segments"])})
    except (ValueError, KeyError, TypeError) as error:
        # No checksum covers the footer's content.
        raise NoSegmentError(f"its footer is damaged: {error}") from error
