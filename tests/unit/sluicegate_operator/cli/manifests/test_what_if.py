"""`sluicegate what-if`: which quotas are tried, and how they are passed on."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from sluicegate_operator.cli.manifests.what_if import what_if
from sluicegate_operator.cli.options import Output

QUOTA = """apiVersion: sluicegate.dev/v1alpha1
kind: ConnectionQuota
metadata: {{name: {name}}}
spec:
  clusterRef: {{name: {cluster}}}
  target: {target}
  maxConnectionCreationRate: {rate}
"""


def quota(name: str, cluster: str = "shop", target: str = "{listener: EXTERNAL}", rate: int = 5) -> str:
    return QUOTA.format(name=name, cluster=cluster, target=target, rate=rate)


@pytest.fixture
def passed_on(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the other program would have been given."""
    given: dict[str, Any] = {}

    def run(command: list[str], *, input: str, text: bool, check: bool) -> subprocess.CompletedProcess[str]:
        given.update(command=command[1:], limits=json.loads(input))
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr("subprocess.run", run)
    return given


def tried(folder: Path, *documents: str, **options: Any) -> int:
    (folder / "quotas.yaml").write_text("---\n".join(documents), encoding="utf-8")
    with pytest.raises(typer.Exit) as ended:
        what_if("segments", [folder], **options)
    return ended.value.exit_code


def test_the_limits_are_passed_on_and_the_exit_code_comes_back(tmp_path: Path, passed_on: dict[str, Any]) -> None:
    code = tried(tmp_path, quota("clients"), from_time="2026-11-22", to_time="2026-11-23", output=Output.JSON)
    assert code == 3
    program = ["-m", "audit_pipeline", "what-if", "--audit", "segments", "--from", "2026-11-22", "--to", "2026-11-23"]
    assert passed_on["command"] == [*program, "--output", "json", "--limits", "-"]
    assert passed_on["limits"]["configs"]["listener.name.external.max.connection.creation.rate"] == "5"


@pytest.mark.parametrize("options", [{}, {"files": [Path("quotas.yaml")], "in_force": True}])
def test_quotas_and_in_force_exclude_each_other(options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        what_if("segments", **options)
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err == "give either the quotas to try with -f, or --in-force\n"


def test_limits_are_printed_for_a_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "quotas.yaml").write_text(quota("clients"), encoding="utf-8")
    what_if(None, [tmp_path], print_limits=True)
    limits = json.loads(capsys.readouterr().out)
    assert limits["configs"]["listener.name.external.max.connection.creation.rate"] == "5"
    with pytest.raises(typer.Exit) as ended:
        what_if(None, [tmp_path])
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err.startswith("give --audit the folder or URI with the segments of the audit log")


def test_in_force_needs_no_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []

    def run(command: list[str], *, check: bool) -> subprocess.CompletedProcess[str]:
        given.append(command[1:])
        return subprocess.CompletedProcess(command, 4)

    monkeypatch.setattr("subprocess.run", run)
    with pytest.raises(typer.Exit) as ended:
        what_if("segments", in_force=True)
    assert ended.value.exit_code == 4
    assert given == [
        ["-m", "audit_pipeline", "what-if", "--audit", "segments", "--output", "table", "--in-force"],
    ]


def test_members_of_a_workload_are_canonical(tmp_path: Path, passed_on: dict[str, Any]) -> None:
    workload = quota("pods", target="{workload: {podSelector: {}}}")
    assert tried(tmp_path, workload, member=["pods=10.0.0.7/32", "pods=2001:DB8::1"]) == 3
    members = [each["entity"]["ip"] for each in passed_on["limits"]["quotas"] if each["key"] == "member"]
    assert members == ["10.0.0.7", "2001:db8::1"]


def test_one_of_several_clusters_is_named(tmp_path: Path, passed_on: dict[str, Any]) -> None:
    two = (quota("a"), quota("b", "lab", rate=7))
    assert tried(tmp_path, *two, cluster="lab") == 3
    assert passed_on["limits"]["configs"]["listener.name.external.max.connection.creation.rate"] == "7"


@pytest.mark.parametrize(
    ("documents", "options", "code", "sentence"),
    [
        ((quota("a", rate=0),), {}, 1, "spec.maxConnectionCreationRate: must be at least 1"),
        (("a: [",), {}, 1, "quotas.yaml"),
        ((quota("a"), quota("b", "lab")), {}, 2, "several clusters (lab, shop): name one with --cluster"),
        ((quota("a"),), {"cluster": "lab"}, 2, "no ConnectionQuota of cluster lab"),
        ((quota("a"),), {"member": ["a=10.0.0.1"]}, 2, "no ConnectionQuota named 'a' has target.workload"),
        (
            (quota("a", target="{workload: {podSelector: {}}}"),),
            {"member": ["a=host"]},
            2,
            "'host' is not an address or a range",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_tried(
    tmp_path: Path,
    documents: tuple[str, ...],
    options: dict[str, Any],
    code: int,
    sentence: str,
    passed_on: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert tried(tmp_path, *documents, **options) == code
    assert sentence in capsys.readouterr().err
    assert passed_on == {}
