"""Which files of the results are in force: a manifest that names them all, replaced as a whole.

    RESULTS/_manifest.json
    RESULTS/<table>/event_date=<date>/<version>-<part>.parquet     facts and daily results
    RESULTS/<table>/<version>-<part>.parquet                       whole results

Who reads takes the manifest first and then its files: all of one build, none of the next. Files that a manifest no
longer names stay for GRACE_S, for those who are still reading them.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa
from pyarrow import dataset

from audit_pipeline.errors import BadUseError
from audit_pipeline.results.tables import result_tables
from audit_pipeline.tables import schema_of
from audit_pipeline.targets import Target

MANIFEST = "_manifest.json"
FORMAT = 1
GRACE_S = 3600.0

WHOLE = ""
"""Stands for the day of a table that is not by day."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One published version.

    `files`: of each table and event-day (ISO, WHOLE where there is none) its files. `days`: what is noted of each day.
    `superseded`: files of former versions with the second since 1970 from which on nobody should read them.
    """

    version: str
    built_us: int
    files: Mapping[str, Mapping[str, tuple[str, ...]]]
    days: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    superseded: Mapping[str, float] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    """What the build has to say of itself: see jobs.build."""

    def packed(self) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True).encode()

    def of(self, table: str) -> list[str]:
        """All files of a table, by name."""
        return sorted(path for paths in self.files.get(table, {}).values() for path in paths)


def read_manifest(target: Target) -> Manifest | None:
    """None where nothing was published yet. Raises OSError, and BadUseError for one of another format."""
    try:
        with target.file_system.open_input_stream(MANIFEST) as file:
            read = json.loads(file.read())
    except FileNotFoundError:
        return None
    found = read.pop("format", None)
    if found != FORMAT:
        raise BadUseError(f"the results have format {found}, and this is for format {FORMAT}: give another folder")
    files = {table: {day: tuple(paths) for day, paths in by_day.items()} for table, by_day in read.pop("files").items()}
    return Manifest(files=files, **read)


def publish(target: Target, manifest: Manifest) -> None:
    """From here on readers see this version and no other."""
    target.put(MANIFEST, manifest.packed())


@cache
def result_schema(table: str) -> pa.Schema:
    """As Arrow has it; Spark's is results.frames.result_schema."""
    return schema_of(result_tables()[table].fields)


def table_of(target: Target, manifest: Manifest, table: str, schema: pa.Schema) -> dataset.Dataset:
    """The rows of a table as they are published, for Arrow and DuckDB; none where it has no files."""
    files = manifest.of(table)
    return dataset.dataset(files, schema=schema, format="parquet", filesystem=target.file_system)
