"""Ranges, observed limits, limits that end, and `sluicegate why`, as tried by a user with `sluicegate up`."""

import json
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.processes.local_fleet import LocalUp, copy_quickstart, run_command

QUOTAS: dict[str, dict[str, Any]] = {
    "range": {"target": {"cidr": "127.0.4.0/24"}, "maxConnections": 100},
    "what-if": {"target": {"cidr": "127.0.4.0/25"}, "maxConnections": 1, "mode": "Observe"},
}


def write(manifests: Path, **quotas: dict[str, Any]) -> None:
    documents = [
        {
            "apiVersion": "sluicegate.dev/v1alpha1",
            "kind": "ConnectionQuota",
            "metadata": {"name": name},
            "spec": {"clusterRef": {"name": "shop"}} | said,
        }
        for name, said in quotas.items()
    ]
    draft = manifests / "people.draft"
    draft.write_text(yaml.safe_dump_all(documents))
    draft.replace(manifests / "people.yaml")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalUp]:
    folder = tmp_path_factory.mktemp("here")
    manifests = copy_quickstart(folder, brokers=1)
    write(manifests, **QUOTAS)
    with LocalUp(manifests, folder / "data") as up:
        yield up


def why(up: LocalUp, address: str) -> Any:
    done = run_command("why", address, "-o", "json", "--data-dir", str(up.data_dir))
    assert done.returncode == 0, done.stderr
    [found] = json.loads(done.stdout)["addresses"]
    [broker] = found["brokers"]
    return broker["answer"]


@pytest.mark.full
def test_why_lists_enforcing_and_observing_quotas_of_an_address(running: LocalUp) -> None:
    said = why(running, "127.0.4.9")
    [holder], [observer] = said["holders"], said["observers"]
    assert (holder["group"], holder["member"], holder["max_connections"]) == ("default/range", "127.0.4.0/24", 100)
    assert (observer["group"], observer["mode"]) == ("default/what-if", "Observe")
    [own] = why(running, "127.0.1.7")["holders"]
    assert own["kind"] == "ip"
    table = run_command("why", "127.0.4.9", "--data-dir", str(running.data_dir))
    assert table.returncode == 0
    assert "default/range" in table.stdout


@pytest.mark.full
def test_status_shows_what_an_observed_limit_would_have_delayed(running: LocalUp) -> None:
    host, _, port = running.external().rpartition(":")

    def says() -> str:
        [row] = [one for one in running.state()["clusters"]["shop"]["resources"] if one["name"] == "what-if"]
        return str(row["message"])

    running.wait_until(lambda: "observed by all 1 brokers" in says(), "the quota is in force")
    with ExitStack() as stack:
        for _ in range(3):
            source = ("127.0.4.9", 0)
            stack.enter_context(socket.create_connection((host, int(port)), timeout=15, source_address=source))
        running.wait_until(
            lambda: "2 connections would have been delayed or rejected (1/1 brokers)" in says(),
            "two of three are told",
            60,
        )
    shown = run_command("status", "--data-dir", str(running.data_dir))
    assert "would have been delayed" in " ".join(shown.stdout.replace("│", " ").split())


def test_a_limit_ends_by_itself_at_its_moment(running: LocalUp) -> None:
    def held() -> bool:
        [node] = running.nodes("broker")
        with urllib.request.urlopen(f"http://{node['http']}/connection-quotas?address=127.0.5.1", timeout=15) as answer:
            return [one["group"] for one in json.load(answer)["holders"]] == ["default/until"]

    ends = datetime.now(UTC) + timedelta(seconds=3)
    write(
        running.manifests,
        **QUOTAS,
        until={"target": {"cidr": "127.0.5.0/24"}, "maxConnections": 1, "expiresAt": ends.isoformat()},
    )
    running.wait_until(held, "the range is held", 20)
    running.wait_until(lambda: not held(), "the range is free again", 20)
    assert datetime.now(UTC) >= ends


def test_workloads_are_refused_while_it_runs(running: LocalUp) -> None:
    write(running.manifests, **QUOTAS, pods={"target": {"workload": {"podSelector": {}}}, "maxConnections": 1})
    running.wait_for_line("not applied: ConnectionQuota pods: spec.target.workload selects pods of Kubernetes")


def test_an_unreachable_broker_is_reported_and_sets_the_exit_code(running: LocalUp) -> None:
    done = run_command("why", "127.0.4.9", "--data-dir", str(running.data_dir / "nowhere"))
    assert done.returncode == 2
    assert "ask a cluster in Kubernetes with -n NAMESPACE" in done.stderr
