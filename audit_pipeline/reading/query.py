"""SQL queries over all events, in segments and still in spools. Shell over DuckDB."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow import dataset

from audit_pipeline.contract import contract
from audit_pipeline.spool.listing import segment_paths
from audit_pipeline.spool.segment import hour_of, is_merged_into, segment_name
from audit_pipeline.spool.spool import NoSpoolError, OtherVersionError
from audit_pipeline.spool.spool_folder import FoundSpool, boots, spools_of
from audit_pipeline.spool.tables import arrow_schema, gaps_of, tables_of
from audit_pipeline.spool.targets import DRAFT_PREFIX, Target

_HOURS = pa.schema([("arrival_date", pa.string()), ("arrival_hour", pa.string())])


class Events:
    """The events of segments and spools for SQL: one view for each table of the schema.

    Each view also has the hour of arrival in two more columns.
    """

    def __init__(self, target: Target | None, spools: Sequence[Path] = ()) -> None:
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        # Spools are read first: events that land meanwhile are then found in segments, and never missed.
        found_in_spools = list(_in_spools(spools))
        landed: dict[str, list[str]] = defaultdict(list)
        for file in [] if target is None else segment_paths(target):
            landed[file.table].append(file.path)
        # Merged files may still have the names of drafts.
        names = {
            table: {path.rpartition("/")[2].removeprefix(DRAFT_PREFIX) for path in paths}
            for table, paths in landed.items()
        }
        waiting = _waiting(found_in_spools, names)
        for table in contract().tables:
            schema = pa.unify_schemas([arrow_schema(table), _HOURS])
            parts = []
            if target is not None and landed[table]:
                found = dataset.dataset(
                    landed[table],
                    schema=schema,
                    format="parquet",
                    filesystem=target.file_system,
                    partitioning=dataset.partitioning(_HOURS, flavor="hive"),
                    partition_base_dir=table,
                )
                self._connection.register(f"landed_{table}", found)
                parts.append(f"landed_{table}")
            rows = pa.concat_tables(waiting[table]) if waiting[table] else schema.empty_table()
            self._connection.register(f"waiting_{table}", rows)
            parts.append(f"waiting_{table}")
            union = " UNION ALL BY NAME ".join(f"SELECT * FROM {part}" for part in parts)
            self._connection.execute(f"CREATE VIEW {table} AS {union}")

    def ask(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Run a query in SQL over audit events. Return the names of the columns, and the rows. Raises duckdb.Error."""
        return fetched(self._connection.sql(sql))


def fetched(asked: duckdb.DuckDBPyRelation | None) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of the columns, and the rows; none of both for SQL that returns no rows."""
    if asked is None:
        return [], []
    # Through Arrow: DuckDB itself would need another package for times with a time zone.
    found: pa.Table = asked.to_arrow_table()
    columns = [column.to_pylist() for column in found.columns]
    return found.column_names, list(zip(*columns, strict=True))


def _waiting(
    spools: Iterable[tuple[str, dict[str, pa.Table]]], landed: Mapping[str, Collection[str]]
) -> dict[str, list[pa.Table]]:
    """Return the waiting events by table, without files that the table already has: a spool may be half landed."""
    found: dict[str, list[pa.Table]] = defaultdict(list)
    for name, tables in spools:
        for table, rows in tables.items():
            names = landed.get(table, ())
            if name not in names and not is_merged_into(name, names):
                found[table].append(rows)
    return found


def _in_spools(folders: Iterable[Path]) -> Iterator[tuple[str, dict[str, pa.Table]]]:
    """Yield, for each spool including open ones, the name of its segment and its events by table."""
    for folder in folders:
        for boot_id in boots(folder):
            try:
                for spool in spools_of(folder, boot_id):
                    yield _events_of(spool)
            except (NoSpoolError, OtherVersionError):
                # The lander reports it.
                continue


def _events_of(spool: FoundSpool) -> tuple[str, dict[str, pa.Table]]:
    header = spool.content.header
    name = segment_name(header.cluster_id, header.broker_id, header.boot_id, f"{header.segment:08d}")
    gaps = list(gaps_of(spool.content, spool.until_seq, ended=spool.ended))
    date, hour = hour_of(header.opened_us).split("/")
    tables = {}
    for table, rows in tables_of(spool.content, gaps).items():
        plain = rows.cast(arrow_schema(table))
        for column, value in (("arrival_date", date), ("arrival_hour", hour)):
            plain = plain.append_column(column, pa.array([value.partition("=")[2]] * len(plain)))
        tables[table] = plain
    return name, tables
