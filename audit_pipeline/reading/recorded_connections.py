"""Reads rows of the table connection as events for a replay. Pure conversion of Arrow's columns."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from audit_pipeline.errors import BadUseError
from audit_pipeline.what_if.attempts import RecordedEvent
from audit_pipeline.what_if.limits_in_force import RecordedLimit
from connection_limits.recorded.rows import LimitEvent, LimitRow, RateKind

COLUMNS: Final = (
    "seq",
    "event",
    "listener",
    "client_ip",
    "client_port",
    "connection_id",
    "client_id",
    "reason",
    "limit_quota",
    "limit_key",
    "limit_entity",
    "held_us",
    "arrived_us",
    "decided_us",
)
"""Names of the columns for the fields of RecordedEvent, without the last one, which is computed from ts."""


_BATCH_ROWS: Final = 65_536
"""Rows that are Python objects at the same time."""


def recorded_events(rows: pa.Table) -> Iterator[RecordedEvent]:
    """Yield the events of one boot, in the order of the rows. Rows before version 1.3 have no times: leave them out."""
    for batch in rows.to_batches(max_chunksize=_BATCH_ROWS):
        columns = [_values(batch.column(batch.schema.get_field_index(name))) for name in COLUMNS]
        wall_us = batch.column(batch.schema.get_field_index("ts")).cast(pa.int64())
        yield from map(RecordedEvent._make, zip(*columns, wall_us.to_pylist(), strict=True))


def recorded_limits(rows: pa.Table) -> Iterator[RecordedLimit]:
    """Yield the rows of the table connection_limit of one boot, in their order. Raises BadUseError."""
    names = ("seq", "at_us", *LimitRow._fields, "further")
    for batch in rows.to_batches(max_chunksize=_BATCH_ROWS):
        columns = [_values(batch.column(batch.schema.get_field_index(name))) for name in names]
        for seq, at_us, event, kind, *others, further in zip(*columns, strict=True):
            try:
                row = LimitRow(LimitEvent(event), None if kind is None else RateKind(kind), *others)
            except ValueError as error:
                raise BadUseError(
                    f"the log has limits of a kind that this version does not know ({error}): read it with the version "
                    "of the newest broker"
                ) from None
            yield RecordedLimit(seq, at_us, row, further)


def _values(column: pa.Array) -> list[object]:
    """Return Python values. A text is one object, however often it occurs."""
    if pa.types.is_string(column.type):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type):
        words: list[object] = [*column.dictionary.to_pylist(), None]
        return [words[-1 if index is None else index] for index in column.indices.to_pylist()]
    values: list[object] = column.to_pylist()
    return values
