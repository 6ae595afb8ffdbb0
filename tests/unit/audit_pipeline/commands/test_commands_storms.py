"""`sluicegate audit storms`: the storms of published results, the latest first."""

import csv
import json
from pathlib import Path
from threading import Event

import pytest

from audit_pipeline.__main__ import main
from audit_pipeline.commands.commands_storms import COLUMNS
from tests.support.audit.published_results import publish_rows, story


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    rows = story()
    rows["storms"][1] |= {"source_client_id": "sluicegate-storm"}
    publish_rows(folder, rows)
    return folder


def asked(results: Path, *options: str) -> int:
    return main(["storms", "--results", str(results), *options], Event())


def test_each_storm_is_a_row_with_its_source_and_its_limit(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(results, "--output", "json") == 0
    last, first = map(json.loads, capsys.readouterr().out.splitlines())
    assert tuple(last) == COLUMNS
    assert (last["started"], last["lasted_s"]) == ("2026-11-22T15:58:00+00:00", 260.9)
    assert (last["client"], last["address"]) == ("loyalty-worker", "10.4.8.77")
    assert (last["limit"], last["limit_value"], last["admitted_per_s"]) == ("max.connection.creation.rate", 60, 54)
    assert last["others_p99_ms"] == 94.0
    assert (first["client"], first["limit"], first["admitted_per_s"]) == ("sluicegate-storm", None, None)


def test_a_table_is_what_people_see(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(results) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == list(COLUMNS)
    assert sum("10.4.8.77" in line for line in lines) == 1


def test_storms_are_selected_by_time_and_client(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, clients in (
        (("--from", "2026-11-22"), ["loyalty-worker"]),
        (("--to", "2026-11-21"), ["sluicegate-storm"]),
        (("--client", "loyalty-*"), ["loyalty-worker"]),
        (("--cluster", "nothing"), []),
    ):
        assert asked(results, *options, "-o", "csv") == 0
        found = csv.DictReader(capsys.readouterr().out.splitlines())
        assert [row["client"] for row in found] == clients


def test_no_storm_is_said(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(results, "--client", "nobody") == 0
    assert capsys.readouterr().out == "the results have no connection storm of this kind\n"
