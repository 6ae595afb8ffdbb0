"""What the audit pipeline has to answer, said a second time: DuckDB on the same files, by the definitions only.

schemas/audit_result.v1.json is what both follow; nothing of audit_pipeline's results is used here. Sums are exact.
"""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import duckdb
import pyarrow as pa

from audit_pipeline.contract import contract
from audit_pipeline.published import result_schema
from audit_pipeline.results.settings import RESOURCES, Settings
from audit_pipeline.results.tables import result_tables
from audit_pipeline.tables import arrow_schema
from tests.support.audit_oracle.facts import FACTS, MACROS
from tests.support.audit_oracle.files import File, Footer, deleted, looked_through
from tests.support.audit_oracle.results import RESULTS

_SQL_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.date32(): "INTEGER",
    pa.float64(): "DOUBLE",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.string(): "VARCHAR",
    pa.timestamp("us", tz="UTC"): "BIGINT",
}
_BY_PATH = {"day": pa.date32(), "cluster": pa.string(), "broker": pa.int32()}


def audit_results(folder: Path, now_us: int, settings: Settings | None = None, threads: int = 2) -> dict[str, pa.Table]:
    """Every table of the results by name, sorted by its key."""
    settings = settings or Settings()
    with duckdb.connect(config={"threads": threads}) as asked:
        asked.execute(MACROS)
        _add_events(asked, folder, looked_through(folder, now_us))
        _add_settings(asked, settings)
        storms = asdict(settings.storms)
        for name, sql in {**FACTS, **RESULTS}.items():
            asked.execute(f"CREATE TABLE {name} AS {sql}", {key: storms[key] for key in storms if f"${key}" in sql})
        return {name: _result(asked, name) for name in result_tables()}


def _add_events(asked: duckdb.DuckDBPyConnection, folder: Path, files: list[File]) -> None:
    """A view of each table of events without what is set aside, and tables of what is known of files."""
    known = [file for file in files if file.footer is not None]
    footers = pa.table({
        "path": [file.path for file in known],
        **{name: [getattr(file.footer, name) for file in known] for name in Footer._fields},
    })  # fmt: skip
    asked.register("footers", footers)
    asked.execute("CREATE TABLE footer AS SELECT * REPLACE (broker_id::INTEGER AS broker_id) FROM footers")
    names = ("cluster_id", "broker_id", "boot_id", "seq")
    expired = deleted(folder)
    columns = [pa.array([each[place] for each in expired]) for place in range(len(names))]
    types = ("VARCHAR", "INTEGER", "VARCHAR", "BIGINT")
    asked.register("expired_boots", pa.table(columns, list(names)))
    casts = ", ".join(f"{name}::{kind} AS {name}" for name, kind in zip(names, types, strict=True))
    asked.execute(f"CREATE TABLE deleted AS SELECT {casts} FROM expired_boots")
    for table in contract().tables:
        paths = [str(folder / file.path) for file in files if file.table == table and file.reason is None]
        _add_view(asked, table, paths, folder)
    _add_set_aside(asked, files)


def _add_view(asked: duckdb.DuckDBPyConnection, table: str, paths: list[str], folder: Path) -> None:
    name = "level_rollup" if table == "rollup" else f'"{table}"'
    schema = arrow_schema(table)
    times = ", ".join(
        f"epoch_us({field.name}) AS {field.name}" for field in schema if pa.types.is_timestamp(field.type)
    )
    if not paths:
        asked.register(f"no_{table}", schema.empty_table())
        asked.execute(
            f"CREATE VIEW every_{table} AS SELECT * REPLACE ({times}), '' AS path, true AS is_possible FROM no_{table}"
        )
    else:
        read = f"read_parquet({paths!r}, filename = true, hive_partitioning = false)"
        asked.execute(f"""
            CREATE VIEW every_{table} AS
            SELECT e.* EXCLUDE (filename) REPLACE ({times.replace("(", "(e.")}), f.path,
                epoch_us(e.ts) BETWEEN f.opened_us - 7 * 86400000000 AND f.closed_us + 300000000 AS is_possible
            FROM {read} e JOIN footer f ON e.filename = '{folder}/' || f.path
        """)
    asked.execute(f"CREATE VIEW {name} AS SELECT * EXCLUDE (path, is_possible) FROM every_{table} WHERE is_possible")


def _add_set_aside(asked: duckdb.DuckDBPyConnection, files: Iterable[File]) -> None:
    aside = [file for file in files if file.reason is not None]
    asked.register("aside", pa.table({
        "path": pa.array([file.path for file in aside], pa.string()),
        "reason": pa.array([file.reason for file in aside], pa.string()),
        "table": pa.array([file.table for file in aside], pa.string()),
        **{name: pa.array([None if file.begun is None else file.begun[place] for file in aside], kind)
           for place, (name, kind) in enumerate(_BY_PATH.items())},
    }))  # fmt: skip
    clocks = " UNION ALL ".join(
        f"""SELECT path, 'clock' AS reason, '{table}' AS "table", NULL AS day, NULL AS cluster, NULL AS broker,
            count(*) AS rows FROM every_{table} WHERE NOT is_possible GROUP BY path"""
        for table in contract().tables
    )
    asked.execute(f"""
        CREATE TABLE set_aside AS
        SELECT a.path, a.reason, a."table", coalesce(day_of(f.opened_us), a.day - DATE '1970-01-01') AS event_date,
            coalesce(f.cluster_id, a.cluster) AS cluster_id, coalesce(f.broker_id, a.broker) AS broker_id,
            coalesce(a.rows, f.rows) AS rows
        FROM (SELECT *, NULL AS rows FROM aside UNION ALL {clocks}) a LEFT JOIN footer f USING (path)
    """)


def _add_settings(asked: duckdb.DuckDBPyConnection, settings: Settings) -> None:
    prices = settings.prices
    rows = [] if prices is None else [(resource, float(units), prices.price.get(resource, 0.0), prices.currency)
                                      for resource, (_, units) in RESOURCES.items()]  # fmt: skip
    asked.execute("CREATE TABLE price (resource VARCHAR, units DOUBLE, price DOUBLE, currency VARCHAR)")
    asked.execute("""CREATE TABLE objective (name VARCHAR, api VARCHAR, latency_ms DOUBLE, target DOUBLE,
        window_days INTEGER, cluster_id VARCHAR, topic VARCHAR, principal VARCHAR)""")
    asked.execute("""CREATE TABLE mirror (name VARCHAR, source_cluster VARCHAR, mirror_cluster VARCHAR,
        prefix VARCHAR, topics VARCHAR[])""")
    objectives = [tuple(asdict(each).values()) for each in settings.objectives]
    mirrors = [(*tuple(asdict(each).values())[:-1], list(each.topics)) for each in settings.mirrors]
    for table, given in (("price", rows), ("objective", objectives), ("mirror", mirrors)):
        for row in given:
            asked.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", list(row))


def _result(asked: duckdb.DuckDBPyConnection, table: str) -> pa.Table:
    schema = result_schema(table)
    types = {field.name: _SQL_TYPES.get(field.type, "MAP(SMALLINT, BIGINT)") for field in schema}
    columns = ", ".join(f'"{name}"::{kind} AS "{name}"' for name, kind in types.items())
    order = ", ".join(f'"{name}" NULLS LAST' for name in result_tables()[table].key)
    found: pa.Table = asked.sql(f"SELECT {columns} FROM {table} ORDER BY {order}").to_arrow_table()
    return pa.table([found[field.name].cast(field.type) for field in schema], schema=schema)
