"""Reads one file of a segment in a target. Damage is reported in one way, whatever error Arrow raises."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from audit_pipeline.contract import Boot
from audit_pipeline.errors import StoppedError, never
from audit_pipeline.spool.listing import SegmentPath
from audit_pipeline.spool.segment import Footer, NoSegmentError, read_footer
from audit_pipeline.spool.tables import is_of_table, unknown_columns, with_known_columns
from audit_pipeline.spool.targets import Target

LOOKS_AT_ONCE: Final = 8
"""Number of concurrent reads: a store is slow for each request, but handles several at once."""

_DAMAGED = (OSError, ValueError, pa.ArrowException)
"""Arrow raises the same for a store that does not answer: callers that can write the file again get its error then."""


def footer_at(path: str, target: Target) -> Footer:
    """Return the footer of the file at a path. Raises FileNotFoundError and NoSegmentError."""
    try:
        with target.file_system.open_input_file(path) as file:
            return read_footer(pq.read_metadata(file))
    except FileNotFoundError:
        raise
    except _DAMAGED as error:
        raise NoSegmentError(f"{path} cannot be read: {error}") from error


def footers_at(
    paths: Sequence[str], target: Target, is_stopped: Callable[[], bool] = never
) -> list[Footer | FileNotFoundError | NoSegmentError]:
    """Return the footer of each file, or the reason why the file has none. Raises StoppedError."""

    def read(path: str) -> Footer | FileNotFoundError | NoSegmentError:
        if is_stopped():
            raise StoppedError
        try:
            return footer_at(path, target)
        except (FileNotFoundError, NoSegmentError) as error:
            return error

    with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
        return list(pool.map(read, paths))


def with_footers(
    files: Sequence[SegmentPath], target: Target, is_stopped: Callable[[], bool]
) -> Iterator[tuple[SegmentPath, Footer]]:
    """Yield the files that have a footer; the command `check` reports the others. Raises StoppedError."""
    for file, found in zip(files, footers_at([file.path for file in files], target, is_stopped), strict=True):
        if isinstance(found, Footer):
            yield file, found


def by_segment(
    files: Sequence[SegmentPath], target: Target, is_stopped: Callable[[], bool]
) -> dict[tuple[Boot, tuple[int, int]], tuple[Footer, list[SegmentPath]]]:
    """Group files by segment. The key is the boot with the numbers of the segment's first and last spool.

    Each group begins with the segment's footer. Files without a footer are left out. Raises StoppedError.
    """
    found: dict[tuple[Boot, tuple[int, int]], tuple[Footer, list[SegmentPath]]] = {}
    for file, footer in with_footers(files, target, is_stopped):
        found.setdefault((footer.boot, footer.segments), (footer, []))[1].append(file)
    return found


def row_groups_at(path: str, table: str, target: Target, *, is_to_rewrite: bool = False) -> Iterator[pa.Table]:
    """Yield all rows with the table's columns in pieces: a merged file may have tens of millions.

    All columns are read, so that any damage is found. Raises NoSegmentError; with `is_to_rewrite` also for a file with
    columns that this version does not know, because the rewritten file would lack them.
    """
    unknown: list[str] = []
    try:
        with target.file_system.open_input_file(path) as file:
            opened = pq.ParquetFile(file, page_checksum_verification=True)
            schema = opened.schema_arrow
            has_columns = is_of_table(schema, table)
            unknown = unknown_columns(schema, table) if is_to_rewrite else []
            for number in range(opened.num_row_groups if has_columns and not unknown else 0):
                yield with_known_columns(opened.read_row_group(number), table)
    except _DAMAGED as error:
        raise NoSegmentError(f"{path} cannot be read: {error}") from error
    if not has_columns:
        raise NoSegmentError(f"{path} does not have the columns of the table {table}")
    if unknown:
        raise NoSegmentError(f"{path} has columns of a later version: {', '.join(unknown)}")


def has_gone(path: str, target: Target) -> bool:
    """Return whether the file does not exist any more. Raises OSError."""
    return bool(target.file_system.get_file_info(path).type == fs.FileType.NotFound)
