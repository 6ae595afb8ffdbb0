"""Which files of the results are in force: a manifest names them all, and is replaced as a whole.

    RESULTS/_manifest.json
    RESULTS/<table>/event_date=<date>/<version>-<part>.parquet     facts and daily results
    RESULTS/<table>/<version>-<part>.parquet                       whole results
    RESULTS/_state/<version>.state                                 what the build has seen of its source

Readers read the manifest first and then its files: all of one build, none of the next. Files that a manifest no longer
names stay for GRACE_S, for readers that still use them.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from hashlib import file_digest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import dataset, fs

from audit_pipeline.errors import BadUseError, first_line
from audit_pipeline.results.tables import result_tables
from audit_pipeline.spool.manifest_file import damaged, read_manifest_file
from audit_pipeline.spool.tables import schema_of
from audit_pipeline.spool.targets import SUFFIX, Target

MANIFEST = "_manifest.json"
FORMAT = 5
GRACE_S = 3600

WHOLE = ""
"""Text in place of the day for a table that is not by day."""
OBJECTIVES = "objectives"
"""Key of the summary with the names of requested objectives.

An objective without any counted request is in no table.
"""
STATE_TABLE = "_state"
"""Name under which the state of the source is kept and superseded like a table.

It is the state that a build has seen.
"""
NOTE_PREFIX = "_written-"
"""Prefix of the notes that tasks of a build leave for its driver."""
DRAFTS = "_drafts"
"""The folder for files that a build is writing, with a folder for each table."""
PROBE = "_probe"
"""The entry in the folder of drafts by which a build checks whether executors write into it."""
PAGE, NUMBERS = "report.html", "report.json"
"""The names of the report's files, if the report was put beside the results."""
_VERSION = r"\d{8}T\d{6}-[0-9a-f]{8}"
_ROWS = re.compile(rf"([^/]+)/(?:event_date=[^/]+/)?{_VERSION}-\d+{re.escape(SUFFIX)}")
_STATE = re.compile(rf"{STATE_TABLE}/{_VERSION}\.state")
_NOTE = re.compile(rf"{NOTE_PREFIX}{_VERSION}-\w+\.json")
_DRAFT = re.compile(rf"{_VERSION}-\w+|{PROBE}")
"""Names that builds create: anything else in their folders belongs to other writers."""
_ANEW = (
    "restore it from a copy, or give `build` another --results, where it builds all days again that its source "
    "still has; these results stay unchanged"
)
_DAY_S = 86_400
_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Manifest:
    """One published version of the results.

    - `files`: the files of each table and event-day (ISO, WHOLE if there is none).
    - `days`: the record of each day: built_us, settings (of its results) and late (rows of files that came after
      the day was over).
    - `pending`: days (2026-11-22) and hours (2026-11-22T05) outside of the requested range that have to be built.
    - `sums`: the SHA-256 of each file of a table, in hexadecimal. Parquet's own checksums leave out the heads of pages:
      a flipped bit there can change a number.
    - `superseded`: files of former versions, with the time since 1970 at which they were superseded.
    - `summary`: rows that the build wrote, and what the log has and lacks over all days.
    """

    version: str
    built_us: int
    files: Mapping[str, Mapping[str, tuple[str, ...]]]
    days: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pending: tuple[str, ...] = ()
    sums: Mapping[str, str] = field(default_factory=dict)
    superseded: Mapping[str, int] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)

    def packed(self) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True).encode()

    def of(self, table: str) -> list[str]:
        """Return all files of a table, sorted by name."""
        return sorted(path for paths in self.files.get(table, {}).values() for path in paths)

    def state(self, target: Target) -> bytes | None:
        """Return the state that the build of this version has stored."""
        for path in self.of(STATE_TABLE):
            with target.file_system.open_input_stream(path) as file:
                read: bytes = file.read()
                return read
        return None

    @property
    def named(self) -> set[str]:
        return {path for table in self.files for path in self.of(table)}


def has_results(target: Target) -> bool:
    """Return whether the target has results that `build` has published, and not segments."""
    return bool(target.file_system.get_file_info(MANIFEST).is_file)


def read_manifest(target: Target) -> Manifest | None:
    """Read the manifest of results; None if nothing is published.

    Raises OSError, and BadUseError for a damaged manifest or another format. A damaged manifest does not count as
    missing: a build from nothing would remove the files that it names.
    """
    return read_manifest_file(target, MANIFEST, Manifest, FORMAT, "the results", _ANEW)


def require_files(target: Target, manifest: Manifest, tables: Collection[str]) -> None:
    """Raise BadUseError if files of these tables are missing or empty, OSError if the store fails."""
    sizes = {stored.path: stored.size for stored in target.files()}
    lost = [(table, path) for table in tables for path in manifest.of(table) if not sizes.get(path)]
    if not lost:
        return
    is_made_anew = all(table in result_tables() and not result_tables()[table].is_by_day for table, _ in lost)
    do = "run `build` again, which writes them again" if is_made_anew else _ANEW
    raise BadUseError(
        f"{MANIFEST} of the results names files that are missing or empty ({len(lost)}), such as {lost[0][1]}: {do}"
    )


def require_readable(target: Target, manifest: Manifest, tables: Collection[str]) -> None:
    """Check that all files of these tables of results can be read.

    Raises BadUseError for a damaged file, OSError if the store fails.
    """
    for path, why in damaged_files(target, manifest, tables):
        raise BadUseError(damaged(f"{path} of the results", why, _ANEW))


def damaged_files(target: Target, manifest: Manifest, tables: Collection[str]) -> Iterator[tuple[str, str]]:
    """Read all files of these tables, and yield those that are missing or damaged, and why.

    Raises OSError if the store fails.
    """
    for path in [path for table in tables for path in manifest.of(table)]:
        try:
            with target.file_system.open_input_file(path) as file:
                why = _damage(file, manifest.sums.get(path))
        except FileNotFoundError:
            why = "the file is missing"
        if why is not None:
            yield path, why


def _damage(file: pa.NativeFile, known: str | None) -> str | None:
    """Return the fault of a file that has the sum `known`; None for a whole file. Raises OSError."""
    if known is not None:
        found = file_digest(file, "sha256").hexdigest()
        return None if found == known else "its SHA-256 is not that of the file that the build has written"
    try:
        pq.read_table(file, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        # Arrow raises OSError for a corrupt page, too; only errors of the store have an errno.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        return first_line(error)
    return None


def successor(former: Manifest | None, manifest: Manifest) -> Manifest:
    """Return `manifest` with the files of `former` that it supersedes."""
    gone = {} if former is None else {**dict.fromkeys(former.named, manifest.built_us), **former.superseded}
    fresh_us, named = manifest.built_us - GRACE_S * _US, manifest.named
    superseded = {path: us for path, us in gone.items() if path not in named and us >= fresh_us}
    return replace(manifest, superseded=superseded)


def remove_unpublished(target: Target, manifest: Manifest | None, now_us: int) -> Mapping[str, int]:
    """Remove files of killed builds, and files that were superseded long ago. Return the sizes of all others by path.

    Files of the last day stay if other builds cannot be detected, as in an object store.
    """
    target.clean(lambda path: path in {MANIFEST, PAGE, NUMBERS} or _STATE.fullmatch(path) is not None)
    remove_drafts(target, _DRAFT)
    kept = set() if manifest is None else manifest.named | manifest.superseded.keys()
    sizes = {stored.path: stored.size for stored in target.files()}
    for path in list(sizes):
        if _is_of_a_build(path) and path not in kept and _is_left_behind(target, path, now_us):
            target.delete(path)
            del sizes[path]
    return sizes


def remove_drafts(target: Target, names: re.Pattern[str]) -> None:
    """Remove the folders of these names, which killed builds have left."""
    selector = fs.FileSelector(DRAFTS, allow_not_found=True)
    for path in [info.path for info in target.file_system.get_file_info(selector)]:
        if names.fullmatch(path.rpartition("/")[2]):
            target.remove_folder(path)


def _is_of_a_build(path: str) -> bool:
    rows = _ROWS.fullmatch(path)
    is_of_a_table = rows is not None and rows[1] in result_tables()
    return is_of_a_table or any(names.fullmatch(path) for names in (_STATE, _NOTE))


def _is_left_behind(target: Target, path: str, now_us: int) -> bool:
    if target.sees_others:
        return True
    began = path.rpartition("/")[2].removeprefix(NOTE_PREFIX).partition("-")[0]
    try:
        began_s = datetime.strptime(began, "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return False
    return began_s < now_us / _US - _DAY_S


def result_file(table: str, day: str, version: str, number: int) -> str:
    """Return the path of one file of a table; `day` is ISO, WHOLE for none."""
    folder = table if day == WHOLE else f"{table}/event_date={day}"
    return f"{folder}/{version}-{number:05d}{SUFFIX}"


def publish(target: Target, manifest: Manifest) -> None:
    """Make this version of the results visible to readers, and no other."""
    target.put(MANIFEST, manifest.packed())


@cache
def result_schema(table: str) -> pa.Schema:
    """Return Arrow's schema of a table; Spark's is results.frames.result_schema."""
    return schema_of(result_tables()[table].fields)


def table_of(target: Target, manifest: Manifest, table: str, schema: pa.Schema) -> dataset.Dataset:
    """Return the published rows of a table, for Arrow and DuckDB; no rows for a table without files.

    Reading compares the checksums of pages: otherwise a flipped bit could change a number without any error.
    """
    options = dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
    as_parquet = dataset.ParquetFileFormat(default_fragment_scan_options=options)
    return dataset.dataset(manifest.of(table), schema=schema, format=as_parquet, filesystem=target.file_system)


def counted(target: Target, manifest: Manifest) -> dict[str, int]:
    """Count what the log has and what it lacks, over all days; it is complete if the last three numbers are 0.

    quarantinedFiles counts files with anything set aside, including files whose day is unknown.
    """
    days, aside = (
        table_of(target, manifest, name, result_schema(name)).to_table() for name in ("completeness", "quarantine")
    )
    sums = {name: pc.sum(days[name]).as_py() or 0 for name in ("events", "missing", "holes")}
    paths = aside["path"].filter(pc.not_equal(aside["reason"], "duplicate"))
    return {**sums, "quarantinedFiles": len(paths.unique())}
