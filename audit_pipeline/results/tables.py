"""The tables that the pipeline produces, as defined in schemas/audit_result.v1.json. Pure; independent of Spark.

Facts are computed from events, by hours of events (UTC); results are computed from facts only. Files have whole days.
docs/reference/audit-results.md and the schemas of Spark and Arrow are generated from this.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, Final

from audit_pipeline.contract import Field, fields_of

UNKNOWN: Final = "(unknown)"
"""Text for the client of a partition's row whose request is missing because its file was set aside."""
NONE: Final = "(none)"
"""Text for a missing name, such as a client ID that was not sent."""

OWN_CLIENTS: Final = "sluicegate-"
"""The beginning of the client IDs of this project's own clients.

Pages and commands leave these clients out unless asked.
"""


def is_own_client(column: str) -> str:
    """Return the condition, as SQL of DuckDB, that a client ID belongs to one of this project's own clients."""
    return f"coalesce(starts_with({column}, '{OWN_CLIENTS}'), false)"


def own_principals(condition: str) -> str:
    """Return the query, as SQL of DuckDB, of the clusters and principals that only this project's own clients have.

    These are the principals of the operator and the brokers. `condition` selects rows of the table usage.
    """
    return f"""
SELECT cluster_id, principal FROM usage WHERE topic IS NULL AND {condition}
GROUP BY cluster_id, principal HAVING bool_and(is_follower OR {is_own_client("client_id")})
"""


WINDOW_MINUTES: Final = 10
"""Minutes of a window of usage and latency, and of a bucket of the comparison with mirrors."""
BIN_S: Final = 1
"""Seconds of a bin in which connections of storms are counted."""


class Kind(StrEnum):
    """The kind of a table: what it is computed from."""

    FACT = "fact"
    """Computed from the events of some hours, or from other facts of a day."""
    DAILY = "daily result"
    """Computed from the facts of some hours, or of a day."""
    WHOLE = "whole result"
    """Computed from the facts of all days that are kept, again by each build."""


@dataclass(frozen=True, slots=True)
class ResultTable:
    """One table of results. `key` identifies a row; in facts and daily results its first field is event_date.

    `hour_of` is the field whose hour is that of the events of a row; None if a row is made from a day or more.
    """

    name: str
    kind: Kind
    meaning: str
    key: tuple[str, ...]
    fields: tuple[Field, ...]
    hour_of: str | None = None

    @property
    def is_by_day(self) -> bool:
        return self.kind is not Kind.WHOLE


@cache
def result_definition() -> Mapping[str, Any]:
    """Return the content of schemas/audit_result.v1.json."""
    text = files(__package__).joinpath("audit_result.v1.json").read_text(encoding="utf-8")
    read: dict[str, Any] = json.loads(text)
    return read


@cache
def result_tables() -> Mapping[str, ResultTable]:
    """Return the tables of results by name, facts first. Types are those of audit events, and date and double."""
    return {name: _table(name, read) for name, read in result_definition()["tables"].items()}


def _table(name: str, read: Mapping[str, Any]) -> ResultTable:
    return ResultTable(
        name, Kind(read["kind"]), read["meaning"], tuple(read["key"]), fields_of(read), read.get("hour_of")
    )
