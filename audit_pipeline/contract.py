"""The schema of audit events, read from its file: tables, their fields, the layout of spools. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

COMMON = ("cluster_id", "broker_id", "boot_id", "seq")
"""The first fields of every table, which tables have in common."""

Boot = tuple[str, int, str]
"""One start of a broker: the first three of these fields, which are cluster, broker and boot ID."""

TIME_MS_MAX = 253_402_300_799_999
"""The greatest valid time of a record: the end of the year 9999, in milliseconds.

Producers may send any number as a time: later times and times before 1970 are ignored.
"""

SCHEMA_FILES = ("audit_event.v1.json", *(f"audit_event.v1.{minor}.json" for minor in range(1, 5)))
"""The files of the schema: the version, and what each of its minor versions adds."""

SEGMENT_MS = 60_000
"""Milliseconds after which a spool is complete: the default of the audit log's key segment.ms."""


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a table of audit events.

    `type` is one of int16, int32, int64, string, bool, timestamp_us, map<int16,int64>.
    """

    name: str
    type: str
    nullable: bool
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """The table of one kind of audit event. `key` identifies a row."""

    name: str
    meaning: str
    key: tuple[str, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Contract:
    """The schema of audit events.

    Files of another `version` cannot be read. `minor` only tells which nullable columns were added.
    """

    version: int
    minor: int
    title: str
    meaning: str
    tables: Mapping[str, Table]
    spool: Mapping[str, Any]


@cache
def contract() -> Contract:
    """Return version 1 of the schema, with what its minor versions add."""
    read = _read(SCHEMA_FILES[0])
    tables = {name: _table(name, table) for name, table in read["tables"].items()}
    spool, minor = dict(read["spool"]), 0
    for added in map(_read, SCHEMA_FILES[1:]):
        minor = added["minor_version"]
        tables = _with_additions(tables, added)
        spool["client_fields"] = [*spool["client_fields"], *added.get("spool", {}).get("client_fields", ())]
        spool["payload"] = " ".join(filter(None, [spool["payload"], added.get("spool", {}).get("meaning")]))
    return Contract(read["schema_version"], minor, read["title"], read["meaning"], tables, spool)


def _with_additions(tables: Mapping[str, Table], added: Mapping[str, Any]) -> dict[str, Table]:
    """Return the tables with the columns, meanings and tables of a minor version."""
    found = dict(tables)
    for name, columns in added["tables"].items():
        found[name] = replace(found[name], fields=(*found[name].fields, *fields_of({"fields": columns})))
    for name, meaning in added["meanings"].items():
        found[name] = replace(found[name], meaning=meaning)
    for name, nullable in added.get("nullable", {}).items():
        fields = tuple(
            replace(field, nullable=True, meaning=nullable[field.name]) if field.name in nullable else field
            for field in found[name].fields
        )
        found[name] = replace(found[name], fields=fields)
    return found | {name: _table(name, table) for name, table in added.get("new_tables", {}).items()}


def _read(name: str) -> Any:
    return json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _table(name: str, read: Mapping[str, Any]) -> Table:
    return Table(name, read["meaning"], tuple(read["key"]), fields_of(read))


def fields_of(table: Mapping[str, Any]) -> tuple[Field, ...]:
    """Return the fields of a table in the format of a schema file."""
    return tuple(
        Field(field["name"], field["type"], field["nullable"], field.get("unit", ""), field["meaning"])
        for field in table["fields"]
    )
