"""`recommend`: the recommended limits of published results, with what the replay found."""

import json
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from audit_pipeline.__main__ import main
from tests.support.audit.published_results import MIRROR, SHOP, minutes_of_a_demo, publish_rows, story


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    rows = story([])
    rows["coverage"] = [
        row | {"holes": 3} if (row["cluster_id"], row["event_date"].day) == (MIRROR, 20) else row
        for row in rows["coverage"]
    ]
    publish_rows(folder, rows)
    return folder


def recommended(results: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, Any, str]:
    code = main(["recommend", "--results", str(results), "-o", "json", *options], Event())
    shown = capsys.readouterr()
    return code, json.loads(shown.out), shown.err


def test_a_limit_has_its_reasons_and_the_sums_of_its_replay(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, document, _ = recommended(results, capsys, "--cluster", SHOP)
    listener, every = document["limits"]
    assert (listener["kind"], listener["target"], listener["rate"]) == ("listener", "EXTERNAL", 24)
    assert (every["target"], every["limit_is"], every["parts"]) == ("0.0.0.0/0", "PerAddress", {})
    assert listener["parts"]["usual"]["delay_max_us"] == 1_902_000
    assert {name: listener["parts"]["storm"][name] for name in ("connections", "accepted", "rejected")} == {
        "connections": 4_807,
        "accepted": 300,
        "rejected": 7,
    }
    assert {row["client_ip"] for row in listener["clients"]} == {"10.4.1.17", "10.4.8.77", None}


def test_an_incomplete_log_says_which_hours(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document, told = recommended(results, capsys)
    assert code == 3
    assert document["incomplete"] == [f"broker 0 of cluster {MIRROR}, 2026-11-20T00 (UTC)"]
    assert f"these hours have too few connections: {document['incomplete'][0]}" in told
    assert {limit["cluster_id"] for limit in document["limits"]} == {SHOP, MIRROR}


def test_a_table_is_what_users_see(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["recommend", "--results", str(results)], Event())
    out = capsys.readouterr().out
    assert "listener EXTERNAL" in out
    assert "listener EXTERNAL: 24/s is the smallest rate that delays no usual connection by more than 2 s." in out


def test_results_without_connections_and_without_the_cluster_are_one_sentence(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_rows(tmp_path, minutes_of_a_demo())
    assert main(["recommend", "--results", str(tmp_path)], Event()) == 2
    assert "the results recommend no limit, because they have no connection of a client" in capsys.readouterr().err
    assert main(["recommend", "--results", str(results), "--cluster", "other"], Event()) == 2
    assert "the results recommend no limit of cluster other" in capsys.readouterr().err
