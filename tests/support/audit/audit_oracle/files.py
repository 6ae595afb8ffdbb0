"""Which files of a folder of segments count, and which are set aside, by the definition of `quarantine`."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from audit_pipeline.spool.tables import arrow_schema

_KNOWN_VERSION: Final = 1
_TOLERANCE_US: Final = 300_000_000
_PATH: Final = re.compile(
    r"[^/]+/arrival_date=(\d{4}-\d{2}-\d{2})/arrival_hour=\d{2}/(?:-(?=[_.]))?(.+)-(\d+)-[^-]+-\d+(?:-\d+)?\.parquet"
)


class Footer(NamedTuple):
    """The fields of a file's footer that the oracle needs."""

    version: int
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
    rows: dict[str, int]
    """Number of rows by table."""


class File(NamedTuple):
    """A file of a folder of segments.

    `reason` is None if the file counts. `footer` is None if it cannot be read; only the path is known then.
    """

    path: str
    table: str
    footer: Footer | None
    reason: str | None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def begun(self) -> tuple[date, str, int] | None:
        """Day, cluster and broker named in the path; None for another path."""
        found = _PATH.fullmatch(self.path)
        return None if found is None else (date.fromisoformat(found[1]), found[2], int(found[3]))


def looked_through(folder: Path, now_us: int) -> list[File]:
    """Every file of the folder, each read completely."""
    found = []
    for path in sorted(folder.rglob("*.parquet")):
        name = path.relative_to(folder).as_posix()
        if not path.name.startswith("_"):
            table = name.partition("/")[0]
            footer = _footer(path)
            found.append(File(name, table, footer, _damage(path, table, footer, now_us)))
    repeated = _repeated(file for file in found if file.reason is None)
    return [file._replace(reason=repeated.get(file.path, file.reason)) for file in found]


def deleted(folder: Path) -> list[tuple[str, int, str, int]]:
    """The last number that retention has deleted, for each boot."""
    note = folder / "_expired.json"
    return [tuple(each) for each in json.loads(note.read_text(encoding="utf-8"))] if note.exists() else []


def _footer(path: Path) -> Footer | None:
    try:
        told: dict[str, Any] = json.loads(pq.read_metadata(path).metadata[b"sluicegate.audit"])
        low, high = told["segments"]
        named = {name: told[name] for name in Footer._fields if name in told}
        return Footer(version=told["schema_version"], low=low, high=high, **named)
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
        return None


def _damage(path: Path, table: str, footer: Footer | None, now_us: int) -> str | None:
    if footer is None:
        return "corrupt"
    if footer.version != _KNOWN_VERSION:
        return "version"
    if footer.closed_us > now_us + _TOLERANCE_US:
        return "future"
    try:
        read = pq.ParquetFile(path, page_checksum_verification=True).read()
    except (OSError, pa.ArrowException):
        return "corrupt"
    return None if _has_columns(read.schema, table) else "corrupt"


def _has_columns(schema: pa.Schema, table: str) -> bool:
    """Whether each column is one of the table, or may be null, and no other column of the table is absent."""
    known = {field.name: field for field in arrow_schema(table)}
    for field in schema:
        own = known.get(field.name)
        if (own is None and not field.nullable) or (own is not None and field.type != own.type):
            return False
        if own is not None and field.nullable and not own.nullable:
            return False
    return all(name in schema.names for name, field in known.items() if not field.nullable)


def _repeated(files: Iterable[File]) -> dict[str, str]:
    """Reason by path for files that share segments with files that count."""
    found = {}
    by_boot = defaultdict(list)
    for file in files:
        assert file.footer is not None
        by_boot[(file.table, *file.footer[1:4])].append((file.footer.low, -file.footer.high, file.path))
    for members in by_boot.values():
        counted: set[int] = set()
        left_out = []
        for low, minus_high, path in sorted(members):
            segments = set(range(low, 1 - minus_high))
            if segments & counted:
                left_out.append((path, segments))
            else:
                counted |= segments
        found.update({path: "duplicate" if segments <= counted else "corrupt" for path, segments in left_out})
    return found
