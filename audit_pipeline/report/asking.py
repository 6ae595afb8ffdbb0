"""Published results by SQL: one view for each table, of one version of the results. Shell over DuckDB."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from audit_pipeline.errors import BadUseError
from audit_pipeline.published import (
    Manifest,
    read_manifest,
    require_files,
    require_readable,
    result_schema,
    table_of,
)
from audit_pipeline.results.tables import result_tables
from audit_pipeline.targets import Target

MEMORY = "1GB"


class PublishedTables:
    """All tables of the version of the results that was in force when this was made; tables without files are empty.

    Raises BadUseError where nothing is published, and where a file of it is missing or damaged; OSError where the store
    fails.
    """

    def __init__(self, target: Target) -> None:
        found = read_manifest(target)
        if found is None:
            raise BadUseError("there are no results yet: `build` makes them; give the folder or URI that it was given")
        require_files(target, found, list(result_tables()))
        self._target = target
        self.manifest: Manifest = found
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute(f"SET memory_limit = '{MEMORY}'")
        for table in result_tables():
            rows = table_of(target, found, table, result_schema(table))
            self._connection.register(table, rows)

    def ask(self, sql: str, **given: Any) -> list[dict[str, Any]]:
        """Rows by names of columns; `$name` in the SQL is what is given by that name."""
        named = {name: value for name, value in given.items() if f"${name}" in sql}
        # By way of Arrow: DuckDB itself would want another package for times with a zone.
        with self._damage_told():
            found: list[dict[str, Any]] = self._connection.sql(sql, params=named).to_arrow_table().to_pylist()
        return found

    def make(self, sql: str, **given: Any) -> None:
        """A view or table of its own for what is asked later."""
        named = {name: value for name, value in given.items() if f"${name}" in sql}
        with self._damage_told():
            self._connection.execute(sql, named)

    @contextmanager
    def _damage_told(self) -> Iterator[None]:
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError):
            # Neither says which file it was.
            require_readable(self._target, self.manifest, list(result_tables()))
            raise
