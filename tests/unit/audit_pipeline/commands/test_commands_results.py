"""`usage`, `failures` and `cost` print published results."""

import json
from pathlib import Path
from threading import Event

import pytest

from audit_pipeline.__main__ import main
from audit_pipeline.commands.commands import BAD_USE, OK
from tests.support.audit.published_results import minutes_of_a_demo, publish_rows

DAY = minutes_of_a_demo()["coverage"][0]["event_date"]
WINDOW = minutes_of_a_demo()["usage"][0]["window_start"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = minutes_of_a_demo()
    rows["usage"] += [
        {**row, "client_id": client, "errors": errors}
        for row in rows["usage"][:2]
        for client, errors in (("sluicegate-operator", 0), (None, 7))
    ]
    own = {"event_date": DAY, "window_start": WINDOW, "cluster_id": "demo", "principal": "User:operator"}
    rows["usage"].append({**own, "client_id": "sluicegate-operator", "api": "Metadata"})
    rows["failures"] = [
        {"event_date": DAY, "window_start": WINDOW, "cluster_id": "demo", "client_id": "shop", **failure}
        for failure in (
            {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "topic": "orders", "failures": 1200},
            {"api": "JoinGroup", "error": "MEMBER_ID_REQUIRED", "is_expected": True, "failures": 3},
        )
    ]
    rows["failures"].append({**own, "api": "CreateTopics", "error": "NOT_CONTROLLER", "failures": 5})
    rows["cost"] = [
        {"event_date": DAY, "cluster_id": "demo", "dimension": dimension, "name": name, "resource": "ingress"}
        | {"quantity": 2**30, "amount": 0.5, "currency": "EUR"}
        for dimension, name in (
            ("principal", "User:ANONYMOUS"), ("principal", "User:operator"),
            ("client_id", "shop"), ("client_id", None), ("topic", "orders")
        )
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("results")
    publish_rows(folder, rows)
    return str(folder)


def shown(results: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert main([*arguments, "--results", results, "-o", "json"], Event()) == OK
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_usage_of_each_client_and_topic(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(results, capsys, "usage") == [
        {"client": "shop", "topic": "orders", "produced": 180_000, "fetched": 0, "records": 2700, "requests": 2700}
        | {"errors": 0},
        {"client": "(none)", "topic": "orders", "produced": 60_000, "fetched": 0, "records": 900, "requests": 900}
        | {"errors": 7},
    ]


def test_usage_by_other_columns_has_requests_and_responses(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = shown(results, capsys, "usage", "--by", "hour,client", "--own")
    assert [(row["hour"], row["client"], row["request_bytes"]) for row in rows] == [
        ("2026-11-22T09:00:00+00:00", "shop", 243_000),
        ("2026-11-22T09:00:00+00:00", "(none)", 81_000),
        ("2026-11-22T09:00:00+00:00", "sluicegate-operator", 81_000),
    ]
    assert (
        shown(results, capsys, "usage", "--by", "client", "--topic", "ord*", "--client", "shop")[0]["produced"]
        == 180_000
    )
    assert shown(results, capsys, "usage", "--from", "2026-11-22T09:40") == []


def test_steps_of_the_protocol_are_shown_when_asked_for(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["failures", "--results", results], Event()) == OK
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "error                   api      client  topic   failures  first_window         last_window          cluster",
        "NOT_LEADER_OR_FOLLOWER  Produce  shop    orders  1,200     2026-11-22 09:30:00  2026-11-22 09:30:00  demo",
    ]
    assert "3 errors are steps of the protocol and left out: --expected shows them" in said.err
    rows = shown(results, capsys, "failures", "--expected")
    assert [(row["error"], row["is_expected"]) for row in rows] == [
        ("NOT_LEADER_OR_FOLLOWER", False),
        ("MEMBER_ID_REQUIRED", True),
    ]


@pytest.mark.parametrize(
    ("by", "names"), [("client", ["shop", None]), ("principal", ["User:ANONYMOUS"]), ("topic", ["orders"])]
)
def test_cost_of_what_was_chosen(
    by: str, names: list[str | None], results: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = shown(results, capsys, "cost", "--by", by)
    assert [(row[by], row["ingress"], row["amount"], row["currency"]) for row in rows] == [
        (name, 2**30, 0.5, "EUR") for name in names
    ]
    assert shown(results, capsys, "cost", "--by", by, "--to", "2026-11-21") == []


def test_what_principals_of_own_clients_cost_and_fail_is_shown_when_asked_for(
    results: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = shown(results, capsys, "cost", "--by", "principal", "--own")
    assert [row["principal"] for row in rows] == ["User:ANONYMOUS", "User:operator"]
    failures = shown(results, capsys, "failures", "--own")
    assert [row["error"] for row in failures] == ["NOT_LEADER_OR_FOLLOWER", "NOT_CONTROLLER"]


def test_a_filter_that_does_not_fit_and_a_folder_without_results_are_told(
    results: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", "--results", results, "--topic", "orders"], Event()) == BAD_USE
    assert capsys.readouterr().err == "--topic is for the cost of each topic: add --by topic\n"
    assert main(["usage", "--results", str(tmp_path)], Event()) == BAD_USE
    assert "no results are published yet: run `build`" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["usage", "--results", results, "--by", "nothing"], Event())
    assert "nothing is not one of day, hour, window, cluster, client" in capsys.readouterr().err
