"""The expected results of the audit pipeline: DuckDB on the same files, by the definitions only.

Both implementations follow schemas/audit_result.v1.json; the oracle uses no results code of audit_pipeline. Sums are
exact.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import duckdb
import pyarrow as pa

from audit_pipeline.contract import contract
from audit_pipeline.reading.published import result_schema
from audit_pipeline.results.settings import RESOURCES, Settings
from audit_pipeline.results.tables import result_tables
from audit_pipeline.spool.tables import arrow_schema
from broker_runtime.errors import ErrorCode
from tests.support.audit.audit_oracle.facts import FACTS, MACROS
from tests.support.audit.audit_oracle.files import File, deleted, looked_through
from tests.support.audit.audit_oracle.limits import LIMITS
from tests.support.audit.audit_oracle.results import RESULTS

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
EXPECTED = (
    ("JoinGroup", "MEMBER_ID_REQUIRED"),
    *((api, "REBALANCE_IN_PROGRESS") for api in ("Heartbeat", "JoinGroup", "SyncGroup")),
    ("ApiVersions", "UNSUPPORTED_VERSION"),
    *(("Fetch", error) for error in ("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "cancelled")),
    *((api, "STALE_MEMBER_EPOCH") for api in ("OffsetCommit", "OffsetFetch")),
    ("PushTelemetry", "UNKNOWN_SUBSCRIPTION_ID"),
)
"""Errors by API that are steps of the protocol."""
_BOOT = [("cluster_id", pa.string()), ("broker_id", pa.int32()), ("boot_id", pa.string())]
_SEGMENTS = [("low", pa.int64()), ("high", pa.int64())]
_FILE = pa.schema([("path", pa.string()), ("table", pa.string()), ("name", pa.string())])
_FOOTER = pa.schema([
    *(("path", pa.string()), ("table", pa.string()), *_BOOT, *_SEGMENTS),
    *((name, pa.int64()) for name in ("first_seq", "last_seq", "opened_us", "closed_us")),
    *(("end", pa.string()), ("rows", pa.int64())),
])  # fmt: skip
_TOLD = pa.schema([
    *(*_BOOT, *_SEGMENTS, ("opened_us", pa.int64())),
    *(("table", pa.string()), ("name", pa.string()), ("rows", pa.int64())),
])  # fmt: skip
_DELETED = pa.schema([*_BOOT, ("seq", pa.int64())])
_ASIDE = pa.schema([
    *(("path", pa.string()), ("reason", pa.string()), ("table", pa.string())),
    *(("day", pa.date32()), ("cluster", pa.string()), ("broker", pa.int32())),
])  # fmt: skip


def audit_results(folder: Path, now_us: int, settings: Settings | None = None) -> dict[str, pa.Table]:
    """Every table of the results by name, sorted by its key."""
    with computed_results(folder, now_us, settings or Settings(), {"threads": 2}) as asked:
        return {name: _result(asked, name) for name in result_tables()}


@contextmanager
def computed_results(
    folder: Path, now_us: int, settings: Settings, config: Mapping[str, str | int]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB connection with a table for each result; `config` is DuckDB's own configuration."""
    with duckdb.connect(config=dict(config)) as asked:
        asked.execute(MACROS)
        _add_events(asked, folder, looked_through(folder, now_us))
        _add_settings(asked, settings)
        # Twice the default of segment.ms.
        asked.execute(
            "CREATE TABLE clock AS SELECT $settled_us::BIGINT AS settled_us", {"settled_us": now_us - 120_000_000}
        )
        storms = asdict(settings.storms)
        for name, sql in {**FACTS, **RESULTS, **LIMITS}.items():
            asked.execute(f"CREATE TABLE {name} AS {sql}", {key: storms[key] for key in storms if f"${key}" in sql})
        # A replay is not SQL: without limits to try, the table is empty.
        columns = ", ".join(f'NULL::{_sql_type(field.type)} AS "{field.name}"' for field in result_schema("what_if"))
        asked.execute(f"CREATE TABLE what_if AS SELECT {columns} WHERE false")
        yield asked


def _add_events(asked: duckdb.DuckDBPyConnection, folder: Path, files: list[File]) -> None:
    """Add a view of each table of events without what is set aside, and tables of the known files and footers."""
    _add_table(asked, "file", _FILE, [(file.path, file.table, file.name) for file in files])
    known = [(file, file.footer) for file in files if file.footer is not None]
    _add_table(
        asked,
        "footer",
        _FOOTER,
        [(file.path, file.table, *footer[1:-1], footer.rows.get(file.table)) for file, footer in known],
    )
    told = [
        (*footer[1:6], footer.opened_us, table, file.name, rows)
        for file, footer in known
        for table, rows in footer.rows.items()
    ]
    _add_table(asked, "told", _TOLD, told)
    _add_table(asked, "deleted", _DELETED, deleted(folder))
    for table in contract().tables:
        paths = [str(folder / file.path) for file in files if file.table == table and file.reason is None]
        _add_view(asked, table, paths, folder)
    aside = [(file.path, file.reason, file.table, *(file.begun or (None,) * 3)) for file in files if file.reason]
    _add_table(asked, "aside", _ASIDE, aside)
    _add_set_aside(asked)


def _add_table(
    asked: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, rows: Sequence[tuple[object, ...]]
) -> None:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    asked.register(f"given_{name}", pa.table(arrays, schema=schema))
    asked.execute(f"CREATE TABLE {name} AS FROM given_{name}")


def _add_view(asked: duckdb.DuckDBPyConnection, table: str, paths: list[str], folder: Path) -> None:
    name = "level_rollup" if table == "rollup" else f'"{table}"'
    schema = arrow_schema(table)
    times = ", ".join(
        f"epoch_us({field.name}) AS {field.name}" for field in schema if pa.types.is_timestamp(field.type)
    )
    asked.register(f"no_{table}", schema.empty_table())
    if not paths:
        asked.execute(
            f"CREATE VIEW every_{table} AS SELECT * REPLACE ({times}), '' AS path, true AS is_possible FROM no_{table}"
        )
    else:
        # Files of an earlier minor version lack columns, and those of a later one have others.
        read = f"read_parquet({paths!r}, filename = true, hive_partitioning = false, union_by_name = true)"
        whole = f"(SELECT *, NULL AS filename FROM no_{table} UNION ALL BY NAME FROM {read})"
        known = ", ".join(f'e."{field.name}"' for field in schema)
        asked.execute(f"""
            CREATE VIEW every_{table} AS
            SELECT * REPLACE ({times}) FROM (
                SELECT {known}, f.path,
                    epoch_us(e.ts) BETWEEN f.opened_us - 7 * 86400000000 AND f.closed_us + 300000000 AS is_possible
                FROM {whole} e JOIN footer f ON e.filename = '{folder}/' || f.path
            )
        """)
    asked.execute(f"CREATE VIEW {name} AS SELECT * EXCLUDE (path, is_possible) FROM every_{table} WHERE is_possible")


def _add_set_aside(asked: duckdb.DuckDBPyConnection) -> None:
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
    asked.execute("CREATE TABLE error_name (error_code SMALLINT, name VARCHAR)")
    asked.execute("CREATE TABLE expected_error (api VARCHAR, error VARCHAR)")
    names = [(int(code), code.name) for code in ErrorCode]
    for table, given in (
        ("error_name", names),
        ("expected_error", EXPECTED),
        ("price", rows),
        ("objective", objectives),
        ("mirror", mirrors),
    ):
        for row in given:
            asked.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", list(row))


def _sql_type(kind: pa.DataType) -> str:
    return _SQL_TYPES.get(kind, "MAP(SMALLINT, BIGINT)")


def _result(asked: duckdb.DuckDBPyConnection, table: str) -> pa.Table:
    schema = result_schema(table)
    types = {field.name: _sql_type(field.type) for field in schema}
    columns = ", ".join(f'"{name}"::{kind} AS "{name}"' for name, kind in types.items())
    order = ", ".join(f'"{name}" NULLS LAST' for name in result_tables()[table].key)
    found: pa.Table = asked.sql(f"SELECT {columns} FROM {table} ORDER BY {order}").to_arrow_table()
    return pa.table([found[field.name].cast(field.type) for field in schema], schema=schema)
