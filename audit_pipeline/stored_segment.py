"""What one file of a segment says, as it lies in a target. Damage is told in one way, whatever Arrow calls it."""

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


def rows_at(path: str, table: str, target: Target) -> pa.Table:
    """All of them, and all columns. Raises NoSegmentError."""
    try:
        with target.file_system.open_input_file(path) as file:
            rows = pq.ParquetFile(file, page_checksum_verification=True).read()
    except _DAMAGED as error:
        raise NoSegmentError(f"{path} cannot be read: {error}") from error
    if not rows.schema.equals(arrow_schema(table)):
        raise NoSegmentError(f"{path} does not have the columns of the table {table}")
    return rows
