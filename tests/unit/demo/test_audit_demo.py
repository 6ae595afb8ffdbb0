"""The invented data of `make audit-demo`, and that the demo would notice wrong results."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from audit_pipeline.results.settings import Settings, read_mirrors, read_objectives, read_prices
from demo.audit_demo import week_of, write_settings
from tests.support.audit.audit_oracle.oracle import audit_results
from tests.support.audit.audit_weeks.finding import Ask, not_found
from tests.support.audit.audit_weeks.truth import Truth
from tests.support.audit.audit_weeks.week import write_week

NOW = datetime(2026, 11, 22, 13, tzinfo=UTC)
SMALL = replace(week_of(3_000, NOW), days=5, topics=3, principals=4)


def asking(tables: Mapping[str, pa.Table]) -> Ask:
    def ask(sql: str) -> list[dict[str, Any]]:
        with duckdb.connect() as connection:
            for name, table in tables.items():
                connection.register(name, table)
            rows: list[dict[str, Any]] = connection.sql(sql).to_arrow_table().to_pylist()
            return rows

    return ask


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> tuple[Truth, dict[str, pa.Table]]:
    folder = tmp_path_factory.mktemp("week")
    truth = write_week(SMALL, folder)
    return truth, audit_results(folder, SMALL.now_us, Settings(mirrors=SMALL.mirrors))


def test_the_week_is_over_when_its_results_are_built() -> None:
    week = week_of(1_000, NOW)
    assert datetime.fromtimestamp(week.last_us / 1e6, UTC) == datetime(2026, 11, 22, tzinfo=UTC)
    assert "future" not in week.spoils


def test_settings_are_files_that_build_takes(tmp_path: Path) -> None:
    options = write_settings(SMALL, tmp_path)
    readers: dict[str, Callable[[str], Any]] = {
        "--prices": read_prices,
        "--objectives": read_objectives,
        "--mirrors": read_mirrors,
    }
    read = {name: readers[name](Path(path).read_text()) for name, path in zip(options[::2], options[1::2], strict=True)}
    assert read["--mirrors"] == SMALL.mirrors
    assert read["--prices"].currency == "EUR"
    assert [objective.api for objective in read["--objectives"]] == ["Produce"]


def test_results_that_are_right_are_found_right(week: tuple[Truth, dict[str, pa.Table]]) -> None:
    truth, tables = week
    assert truth.storms
    assert truth.holes
    assert not_found(truth, asking(tables)) == []


@pytest.mark.parametrize("table", ["traffic", "storms", "idle_topics", "completeness"])
def test_results_that_are_lost_are_noticed(week: tuple[Truth, dict[str, pa.Table]], table: str) -> None:
    truth, tables = week
    assert not_found(truth, asking({**tables, table: tables[table].slice(0, 0)}))


def test_another_source_of_a_storm_is_noticed(week: tuple[Truth, dict[str, pa.Table]]) -> None:
    truth, tables = week
    place = tables["storms"].schema.get_field_index("source_client_id")
    others = pa.array(["somebody"] * tables["storms"].num_rows)
    storms = tables["storms"].set_column(place, "source_client_id", others)
    found = not_found(truth, asking({**tables, "storms": storms}))
    assert len(found) == len(truth.storms)
    assert "'runaway'" in found[0]
    assert "'somebody'" in found[0]
