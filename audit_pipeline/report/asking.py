"""SQL over published results: one view for each table, all of one version of the results. Shell over DuckDB."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from audit_pipeline.errors import BadUseError
from audit_pipeline.reading.published import (
    Manifest,
    read_manifest,
    require_files,
    require_readable,
    result_schema,
    table_of,
)
from audit_pipeline.reading.query import fetched
from audit_pipeline.results.tables import result_tables
from audit_pipeline.spool.targets import Target

MEMORY = "1GB"


class PublishedTables:
    """All tables of one version of the results: that in force when the object was created.

    Tables without files are empty. Raises BadUseError if nothing is published, or a file is missing or damaged; OSError
    if the store fails.
    """

    def __init__(self, target: Target) -> None:
        found = read_manifest(target)
        if found is None:
            raise BadUseError("no results are published yet: run `build`, or give the folder or URI of its results")
        require_files(target, found, list(result_tables()))
        self._target = target
        self.manifest: Manifest = found
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute(f"SET memory_limit = '{MEMORY}'")
        self._rows: dict[str, dataset.Dataset] = {}
        for table in result_tables():
            rows = table_of(target, found, table, result_schema(table))
            self._rows[table] = rows
            self._connection.register(table, rows)

    def restrict(self, clusters: Sequence[str]) -> None:
        """Leave out the rows of all other clusters.

        Rows whose cluster is not known stay: they may belong to these clusters.
        """
        cluster_id = pc.field("cluster_id")
        for name, table in result_tables().items():
            if any(field.name == "cluster_id" for field in table.fields):
                kept = self._rows[name].filter(cluster_id.is_null() | cluster_id.isin(list(clusters)))
                self._connection.register(name, kept)

    def ask(self, sql: str, **given: Any) -> list[dict[str, Any]]:
        """Run the SQL, and return rows by names of columns.

        `$name` in the SQL stands for the argument of that name.
        """
        named = {name: value for name, value in given.items() if f"${name}" in sql}
        # Through Arrow: DuckDB itself would need another package for times with a time zone.
        with self._damage_told():
            found: list[dict[str, Any]] = self._connection.sql(sql, params=named).to_arrow_table().to_pylist()
        return found

    def rows(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Run a query in SQL over the published results.

        Return the names of the columns, and the rows. Raises duckdb.Error.
        """
        with self._damage_told():
            return fetched(self._connection.sql(sql))

    def make(self, sql: str, **given: Any) -> None:
        """Create a view or table for later queries."""
        named = {name: value for name, value in given.items() if f"${name}" in sql}
        with self._damage_told():
            self._connection.execute(sql, named)

    @contextmanager
    def _damage_told(self) -> Iterator[None]:
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError):
            # None of these errors names the file.
            require_readable(self._target, self.manifest, list(result_tables()))
            raise
