"""Comparison of two tables of results by their rows."""

from collections.abc import Collection
from typing import Final

import duckdb
import pyarrow as pa

from audit_pipeline.results.tables import result_tables

_RELATIVE: Final = 1e-12
_SHOWN: Final = 3
_SAID_FREELY: Final = frozenset({"detail", "why", "waiting_connections", "tried_connections"})
"""Columns that the oracle does not have: free text, whose wording no definition fixes, and numbers about a replay."""


def differences(table: str, expected: pa.Table, found: pa.Table, without: Collection[str] = ()) -> list[str]:
    """Sentences on each difference; doubles may differ in their last digits. `without` are columns to ignore."""
    if found.schema.names != expected.schema.names:
        return [f"{table} has the columns {found.schema.names}, not {expected.schema.names}"]
    named = [field for field in result_tables()[table].fields if field.name not in _SAID_FREELY | set(without)]
    doubles = [field.name for field in named if field.type == "double"]
    key = [field.name for field in named if field.name in result_tables()[table].key]
    exact = ", ".join(_exactly(field.name, field.type) for field in named if field.type != "double")
    with duckdb.connect() as asked:
        # Without a zone, for which DuckDB would need another package.
        asked.register("expected", _without_zones(expected))
        asked.register("found", _without_zones(found))
        said = [
            f"{table}: {sentence}: {row}"
            for one, other, sentence in (
                ("expected", "found", "is missing"),
                ("found", "expected", "should not be there"),
            )
            for row in asked.execute(
                f"SELECT {exact} FROM {one} EXCEPT ALL SELECT {exact} FROM {other} ORDER BY ALL LIMIT {_SHOWN}"
            ).fetchall()
        ]
        same_key = " AND ".join(f'e."{name}" IS NOT DISTINCT FROM f."{name}"' for name in key)
        for name in doubles:
            said += [
                f"{table}: {name} is not the same: {row}"
                for row in asked.execute(f"""
                    SELECT e.*, f."{name}" FROM expected e JOIN found f ON {same_key}
                    WHERE (e."{name}" IS NULL) <> (f."{name}" IS NULL)
                        OR abs(e."{name}" - f."{name}") > {_RELATIVE} * greatest(abs(e."{name}"), abs(f."{name}"))
                    LIMIT {_SHOWN}
                """).fetchall()
            ]
    return said


def all_differences(expected: dict[str, pa.Table], found: dict[str, pa.Table]) -> list[str]:
    missing = [f"{table} is missing" for table in expected.keys() - found.keys()]
    return missing + [
        said for table in expected.keys() & found.keys() for said in differences(table, expected[table], found[table])
    ]


def _exactly(name: str, kind: str) -> str:
    return f'list_sort(map_entries("{name}")) AS "{name}"' if kind.startswith("map") else f'"{name}"'


def _without_zones(table: pa.Table) -> pa.Table:
    return pa.table({
        name: column.cast(pa.timestamp("us")) if pa.types.is_timestamp(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    })  # fmt: skip
