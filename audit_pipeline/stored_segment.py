"""What one file of a segment says, as it lies in a target. Damage is told in one way, whatever Arrow calls it."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from audit_pipeline.segment import Footer, NoSegmentError, read_footer
from audit_pipeline.tables import arrow_schema
from audit_pipeline.targets import Target

_DAMAGED = (OSError, ValueError, pa.ArrowException)
"""Arrow says the same of a store that does not answer: who can should write the file again, and the store will tell."""


def footer_at(path: str, target: Target) -> Footer:
    """Raises FileNotFoundError and NoSegmentError."""
    try:
        with target.file_system.open_input_file(path) as file:
            return read_footer(pq.read_metadata(file))
    except FileNotFoundError:
        raise
    except _DAMAGED as error:
        raise NoSegmentError(f"{path} cannot be read: {error}") from error


def row_groups_at(path: str, table: str, target: Target) -> Iterator[pa.Table]:
    """All rows, all columns, a piece at a time: a merged file may have tens of millions. Raises NoSegmentError."""
    try:
        with target.file_system.open_input_file(path) as file:
            opened = pq.ParquetFile(file, page_checksum_verification=True)
            has_columns = opened.schema_arrow.equals(arrow_schema(table))
            for number in range(opened.num_row_groups if has_columns else 0):
                yield opened.read_row_group(number)
    except _DAMAGED as error:
        raise NoSegmentError(f"{path} cannot be read: {error}") from error
    if not has_columns:
        raise NoSegmentError(f"{path} does not have the columns of the table {table}")
