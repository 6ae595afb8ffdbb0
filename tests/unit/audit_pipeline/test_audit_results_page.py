"""The questions of docs/reference/audit-results.md are answered by the published results, and by nothing else there."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from audit_pipeline.reading.published import Manifest, publish, result_schema
from audit_pipeline.results.tables import result_tables
from audit_pipeline.spool.targets import open_target
from tools.audit_results_page import EXAMPLES, SETUP, results_page

STARTED = datetime(2026, 11, 20, 10, tzinfo=UTC)
STORM = {"cluster_id": "c1", "listener": "EXTERNAL", "started": STARTED}
PRODUCED = {"cluster_id": "c1", "client_id": None, "api": "Produce"}
ROWS: dict[str, list[dict[str, Any]]] = {
    "idle_topics": [
        {"cluster_id": "c1", "topic": topic, "replica_bytes": size, "idle_hours": hours, "incomplete_days": days,
         "is_spare": topic.endswith("dlq")}
        for topic, size, hours, days in (("a", 1, 168, 0), ("b", 2, 999, 0), ("used", 3, 167, 0), ("dark", 4, 999, 1),
                                         ("a.dlq", 5, 999, 0))
    ],
    "storms": [
        {**STORM, "ended": STARTED, "limit_key": "max", "peak_attempts": 90, "held_accepted": 40},
        {**STORM, "started": STARTED - timedelta(hours=1)},
    ],
    "storm_sources": [
        {**STORM, "client_ip": "10.0.0.1", "principal": "User:a", "accepted": 30, "limited": 1, "refused": 50},
        {**STORM, "client_ip": "10.0.0.2", "principal": "User:b", "accepted": 10, "limited": 0, "refused": 80},
        {**STORM, "started": STARTED - timedelta(hours=1), "client_ip": "10.0.0.3", "accepted": 999},
    ],
    "usage": [
        {**PRODUCED, "client_id": "shop", "window_start": STARTED + timedelta(minutes=minutes), "topic": topic,
         "is_follower": is_follower, "in_bytes": 5, "out_bytes": 0, "records": 1}
        for minutes, topic, is_follower in ((0, "a", False), (50, "a", False), (60, "a", False), (0, None, False),
                                            (0, "a", True))
    ],
    "failures": [
        {**PRODUCED, "error": error, "window_start": STARTED, "is_expected": error == "STEP", "failures": 2}
        for error in ("BROKEN", "BROKEN", "STEP")
    ],
    "latency_hist": [
        {**PRODUCED, "window_start": STARTED, "latency": [(10, 50), (100, 9)]},
        {**PRODUCED, "window_start": STARTED, "principal": "User:b", "latency": [(10, 40)]},
        {**PRODUCED, "window_start": STARTED + timedelta(minutes=50), "latency": [(200, 1)]},
        {**PRODUCED, "window_start": STARTED, "latency": []},
        {**PRODUCED, "window_start": STARTED, "latency": [(900, 1000)], "topic": "a"},
        {**PRODUCED, "window_start": STARTED, "latency": [(900, 1000)], "api": "Fetch"},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    folder: Path = tmp_path_factory.mktemp("published") / "it's"
    files: dict[str, dict[str, tuple[str, ...]]] = {}
    for table, rows in ROWS.items():
        day = "2026-11-20" if result_tables()[table].is_by_day else ""
        path = f"{table}/event_date={day}/2-0.parquet" if day else f"{table}/2-0.parquet"
        (folder / path).parent.mkdir(parents=True)
        schema = pa.schema([field.with_nullable(True) for field in result_schema(table)])
        parquet.write_table(pa.Table.from_pylist(rows, schema), folder / path)
        shutil.copy(folder / path, (folder / path).with_name("1-0.parquet"))
        files[table] = {day: (path,)}
    publish(open_target(str(folder)), Manifest("2", 0, files))
    asked = duckdb.connect()
    asked.execute(SETUP.replace("RESULTS/", str(folder).replace("'", "''") + "/"))
    return asked


def test_the_questions_are_answered(published: duckdb.DuckDBPyConnection) -> None:
    idle, storm, moved, broken, latency = (published.sql(sql).to_arrow_table().to_pylist() for sql in EXAMPLES.values())
    assert [row["topic"] for row in idle] == ["b", "a"]
    assert [(row["client_ip"], row["attempts"], row["held_accepted"]) for row in storm] == [
        ("10.0.0.2", 90, 40),
        ("10.0.0.1", 80, 40),
    ]
    assert [(row["client_id"], row["topic"], row["hour"].hour, row["produced_bytes"]) for row in moved] == [
        ("shop", "a", 10, 10),
        ("shop", "a", 11, 5),
    ]
    assert [(row["error"], row["failures"]) for row in broken] == [("BROKEN", 4)]
    assert latency == [{"cluster_id": "c1", "client_id": None, "hour": STARTED, "p99_us": round(1.04**100)}]


def test_a_table_without_files_has_no_rows_and_the_columns_that_it_would_have(
    published: duckdb.DuckDBPyConnection,
) -> None:
    for table in result_tables().values():
        found = published.sql(f"FROM result('{table.name}')").to_arrow_table()
        assert found.column_names == [field.name for field in table.fields]
        if table.name not in ROWS:
            kinds = {field.name: field.type for field in result_schema(table.name)}
            made = {field.name: field.type for field in found.schema}
            assert {name: pa.types.is_timestamp(kind) or kind for name, kind in made.items()} == {
                name: pa.types.is_timestamp(kind) or kind for name, kind in kinds.items()
            }
            assert len(found) == 0


def test_the_questions_are_answered_where_nothing_was_found(tmp_path: Path) -> None:
    folder = tmp_path / "it's"
    folder.mkdir()
    publish(open_target(str(folder)), Manifest("2", 0, {}))
    asked = duckdb.connect()
    asked.execute(SETUP.replace("RESULTS/", str(folder).replace("'", "''") + "/"))
    assert [asked.sql(sql).to_arrow_table().num_rows for sql in EXAMPLES.values()] == [0] * len(EXAMPLES)


def test_each_table_has_its_place_on_the_page() -> None:
    page = results_page()
    for table in result_tables().values():
        assert f"\n## {table.name}\n" in page
        assert all(f"| `{field.name}` | {field.type}" in page for field in table.fields)
