"""The tables that the pipeline makes, as schemas/audit_result.v1.json defines them. Pure; knows nothing of Spark.

Facts are made from events, one event-day (UTC) at a time; results are made from facts only.
docs/reference/audit-results.md and the schemas of Spark and Arrow are made from this.
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
"""Stands for the client of a partition's row whose request is not there: its file was set aside."""
NONE: Final = "(none)"
"""Stands for the name of what has none, such as a client id that was not sent."""

WINDOW_MINUTES: Final = 10
"""Windows of traffic and latency, and buckets of the comparison with mirrors."""
BIN_S: Final = 10
"""Bins that connections are counted in."""


class Kind(StrEnum):
    """How a table comes to be."""

    FACT = "fact"
    """From the events of one day."""
    DAILY = "daily result"
    """From the facts of one day."""
    WHOLE = "whole result"
    """From the facts of all days that are kept; made anew by each build."""


@dataclass(frozen=True, slots=True)
class ResultTable:
    """One table. `key` names a row; in facts and daily results its first field is event_date."""

    name: str
    kind: Kind
    meaning: str
    key: tuple[str, ...]
    fields: tuple[Field, ...]

    @property
    def is_by_day(self) -> bool:
        return self.kind is not Kind.WHOLE


@cache
def result_definition() -> Mapping[str, Any]:
    """schemas/audit_result.v1.json as it is written."""
    text = files(__package__).joinpath("audit_result.v1.json").read_text(encoding="utf-8")
    read: dict[str, Any] = json.loads(text)
    return read


@cache
def result_tables() -> Mapping[str, ResultTable]:
    """By name, facts first. Types are those of audit events, and date and double."""
    return {name: _table(name, read) for name, read in result_definition()["tables"].items()}


def _table(name: str, read: Mapping[str, Any]) -> ResultTable:
    return ResultTable(name, Kind(read["kind"]), read["meaning"], tuple(read["key"]), fields_of(read))
