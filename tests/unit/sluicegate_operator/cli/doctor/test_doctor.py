"""The command: its output, its exit codes, and wrong use."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sluicegate_operator.cli.asking import kubernetes_asked
from sluicegate_operator.cli.doctor.checks.catalogue import CHECKS
from sluicegate_operator.cli.doctor.checks.results import Where
from sluicegate_operator.cli.doctor.doctor import doctor
from sluicegate_operator.kube.http.errors import KubeError
from tests.support.fakes.kube.read_kube import ReadKube
from tests.unit.sluicegate_operator.cli.doctor.reading.installed import installed


def run(*arguments: str) -> tuple[int, str, str]:
    app = typer.Typer()
    app.command()(doctor)
    done = CliRunner(env={"COLUMNS": "140"}).invoke(app, list(arguments))
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> ReadKube:
    # Without an address, no DNS is asked.
    found = installed(bootstrap="")
    monkeypatch.setattr(kubernetes_asked, "KubeClient", lambda _: found)
    return found


def names(out: str) -> list[str]:
    return [one["check"] for one in json.loads(out)["checks"]]


def test_on_a_machine_without_up_the_checks_of_the_machine_run(tmp_path: Path) -> None:
    code, out, _ = run("--data-dir", str(tmp_path), "-o", "json")
    assert code == json.loads(out)["exitCode"]
    assert names(out) == ["version", "python", "extras", "open files", "data folder", "sluicegate up", "free space"]
    assert "no `sluicegate up` runs in" in out


def test_in_kubernetes_the_checks_are_in_the_order_of_the_catalogue(kube: ReadKube) -> None:
    code, out, _ = run("-n", "kafka", "-o", "json")
    assert code == 0
    order = [check.name for check in CHECKS]
    assert names(out) == sorted(names(out), key=order.index)
    assert set(names(out)) == {
        check.name for check in CHECKS if check.where is not Where.MACHINE and check.name != "addresses"
    }


def test_a_problem_is_shown_with_its_remedy(kube: ReadKube) -> None:
    kube.remove("CustomResourceDefinition", "topics.sluicegate.dev", None)
    code, out, _ = run("-n", "kafka")
    assert code == 1
    assert "x PROBLEM  CRDs" in out
    assert "topics.sluicegate.dev does not exist" in out
    assert "-> apply the CRDs of this release: kubectl apply --server-side -f crds" in out
    assert ", 1 problems, " in out


def test_wrong_use_is_one_sentence(kube: ReadKube) -> None:
    code, out, words = run("-n", "No Such")
    assert (code, out, words[:48]) == (2, "", "'No Such' is not a valid name of a pod or namesp")
    code, out, words = run("-n", "kafka", "--cluster", "bar")
    assert (code, out, words) == (
        2,
        "",
        "namespace kafka has no BrokerCluster bar; set the namespace with -n NAMESPACE\n",
    )


def test_without_a_kubeconfig_the_reason_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> None:
        raise KubeError("no configuration for a Kubernetes API server")

    monkeypatch.setattr(kubernetes_asked, "KubeClient", refuse)
    code, out, _ = run("-n", "kafka", "-o", "json")
    assert (code, names(out)[-1]) == (1, "API server")
