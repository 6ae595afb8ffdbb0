"""The output of `sluicegate plan` for users and programs, and its exit codes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer

from sluicegate_operator.api import load_manifests
from sluicegate_operator.cli.main import main
from sluicegate_operator.cli.manifests.plan import PlanOutput, plan
from sluicegate_operator.cli.manifests.plan_worlds import UnknownWorldError, bodies_there
from sluicegate_operator.fleet.local.local_data import DataDir
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import Kind

QUICKSTART = Path(__file__).parents[5] / "examples" / "quickstart"


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    shutil.copytree(QUICKSTART, tmp_path / "changed")
    return tmp_path / "changed"


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def code_of(files: list[Path], against: list[Path], **options: Any) -> int:
    with pytest.raises(typer.Exit) as ended:
        plan(files, **{"namespace": "default", "kubeconfig": None} | options, against=against)
    return ended.value.exit_code


def test_what_up_runs_is_compared_with(tmp_path: Path, changed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(tmp_path / "data", ignore_errors=True)
    options = {"up": True, "data_dir": tmp_path / "data"}
    assert code_of([changed], [], **options) == 1
    assert "no `sluicegate up` runs" in capsys.readouterr().err
    with DataDir(tmp_path / "data") as data:
        data.write_manifests(load_manifests([QUICKSTART]).resources)
        data.write_state({})
        edit(changed / "listener.yaml", "port: 9094", "port: 9095")
        (changed / "topic.yaml").unlink()
        assert code_of([changed], [], **options) == 2
        assert "restarts broker 0 of shop, broker 1 of shop, broker 2 of shop: ListenersChanged" in said(capsys)
        edit(changed / "listener.yaml", "port: 9095", "port: 9094")
        assert code_of([changed], [], **options) == 0
        assert "- Topic default/orders: deleted" in said(capsys)
        edit(changed / "cluster.yaml", "replicas: 1", "replicas: 3")
        assert code_of([changed], [], **options) == 1
        assert "`sluicegate up` runs one controller" in capsys.readouterr().err


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of([QUICKSTART], [QUICKSTART]) == 0
    assert capsys.readouterr().out == "4 unchanged; no node restarts; nothing is deleted\n"


def test_a_scope_changes_without_a_restart(changed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(changed / "quotas.yaml", "maxConnectionCreationRate: 50", "maxConnectionCreationRate: 300\n  scope: Cluster")
    assert code_of([changed], [QUICKSTART]) == 0
    output = said(capsys)
    assert "listener EXTERNAL 50/s -> 300/s of all brokers together" in output
    assert "no node restarts" in output


def test_a_restart_is_two_and_is_explained(changed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(changed / "cluster.yaml", 'num.partitions: "3"', 'num.partitions: "4"')
    assert code_of([changed], [QUICKSTART]) == 2
    names = ", ".join([*(f"shop-brokers-{ordinal}" for ordinal in range(3)), "shop-controllers-0"])
    assert f"    restarts {names}: ConfigChanged (num.partitions)" in capsys.readouterr().out
    assert code_of([changed], [QUICKSTART], output=PlanOutput.JSON) == 2
    [cluster] = document(capsys)["clusters"]
    assert cluster["restarts"][0] == {
        "node": "shop-brokers-0",
        "reasons": [{"kind": "ConfigChanged", "detail": "num.partitions", "keys": ["num.partitions"]}],
    }


def test_a_refusal_is_one_whatever_else_there_is(changed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(changed / "cluster.yaml", 'num.partitions: "3"', 'num.partitions: "4"')
    edit(changed / "listener.yaml", "name: EXTERNAL", "name: OTHER")
    assert code_of([changed], [QUICKSTART]) == 1
    said = capsys.readouterr().out
    assert "! BrokerListener default/shop-external: refused" in said
    assert "the name of a listener cannot be changed" in said


@pytest.mark.parametrize("output", PlanOutput)
def test_a_file_that_is_wrong_is_one(changed: Path, output: PlanOutput, capsys: pytest.CaptureFixture[str]) -> None:
    edit(changed / "cluster.yaml", "replicas: 3", "replicas: many")
    assert code_of([changed], [QUICKSTART], output=output) == 1
    said = capsys.readouterr()
    shown = json.loads(said.out)["problems"][0] if output is PlanOutput.JSON else said.err
    assert "spec.brokers.replicas: must be a whole number" in shown
    assert code_of([QUICKSTART], [changed], output=output) == 1, "nor can anything be compared with it"


def test_plan_requires_an_own_object_and_a_reachable_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of([tmp_path], [QUICKSTART]) == 1
    assert "no objects of sluicegate.dev" in capsys.readouterr().err
    assert code_of([QUICKSTART], [], kubeconfig=str(tmp_path / "nothing")) == 1
    assert "or name files with --against" in capsys.readouterr().err


def test_objects_without_a_namespace_are_put_where_they_would_be_applied(changed: Path) -> None:
    edit(changed / "listener.yaml", "  name: shop-external", "  name: shop-external\n  namespace: default")
    placed = load_manifests([changed], namespace="production")
    assert {(one.kind, one.namespace) for one in placed.resources} == {
        ("BrokerCluster", "production"),
        ("BrokerListener", "default"),
        ("ConnectionQuota", "production"),
        ("Topic", "production"),
    }


def test_two_documents_that_are_put_into_one_namespace_are_one_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listener = (QUICKSTART / "listener.yaml").read_text()
    named = listener.replace("  name: shop-external", "  name: shop-external\n  namespace: production")
    for name, text in (("one.yaml", listener), ("two.yaml", named)):
        (tmp_path / name).write_text(text)
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    sentence = (
        f"{two}, document 1: metadata.name: BrokerListener production/shop-external is already defined in"
        f" {one}; give each object its own name\n"
    )
    assert code_of([tmp_path], [QUICKSTART], namespace="production") == 1
    assert capsys.readouterr().err == sentence
    assert code_of([QUICKSTART], [tmp_path], namespace="production") == 1
    assert capsys.readouterr().err == sentence
    # Elsewhere they are two, as for validation.
    assert len(load_manifests([tmp_path]).resources) == len(load_manifests([tmp_path], namespace="x").resources) == 2


def test_one_thing_is_compared_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of([QUICKSTART], [QUICKSTART], up=True, kubeconfig="somewhere") == 1
    assert capsys.readouterr().err == ("--up and --against and --kubeconfig exclude each other: use one of them\n")


def test_wrong_options_are_not_taken_for_a_restart(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["plan"], ["plan", "-f", str(QUICKSTART), "--agains", "x"], ["plan", "-f", "x", "-o", "xml"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 1, arguments
    assert "No such option: --agains" in capsys.readouterr().err


def test_a_listener_of_an_external_cluster_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = tmp_path / "wanted"
    shutil.copytree(QUICKSTART.parent / "external", wanted)
    listener = (QUICKSTART / "listener.yaml").read_text().replace("name: shop\n", "name: outside\n")
    (wanted / "listener.yaml").write_text(listener)
    assert code_of([wanted], [QUICKSTART.parent / "external"]) == 1
    assert "! BrokerListener default/shop-external: cluster outside has runtime External" in said(capsys)


class Without:
    """The part of KubeClient used here: an API server that lacks these kinds, and has no objects of others."""

    def __init__(self, *kinds: str, status: int = 404) -> None:
        self.kinds, self.status = kinds, status

    async def list(self, kind: Kind, namespace: str) -> list[dict[str, Any]]:
        if kind.kind in self.kinds:
            raise KubeError("404 page not found", self.status)
        return []


async def test_crds_that_are_not_there_are_named_where_they_are_needed() -> None:
    wanted = load_manifests([QUICKSTART])
    with pytest.raises(
        UnknownWorldError, match=r"does not know brokerclusters\.sluicegate\.dev, topics\.sluicegate\.dev: "
    ):
        await bodies_there(Without("BrokerCluster", "Topic", "AuditPipeline"), wanted)  # type: ignore[arg-type]
    assert await bodies_there(Without("AuditPipeline"), wanted) == []  # type: ignore[arg-type]
    with pytest.raises(KubeError):
        await bodies_there(Without("AuditPipeline", status=403), wanted)  # type: ignore[arg-type]
