"""`sluicegate status` and `quotas` in Kubernetes: their output from pods, objects and the answers of nodes."""

import io
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from sluicegate_operator.cli.asking import kubernetes_asked
from sluicegate_operator.cli.asking.brokers_asked import NobodyToAskError, brokers_in_kubernetes
from sluicegate_operator.cli.fleets.fleet_tables import nodes_table
from sluicegate_operator.cli.fleets.fleet_view import silent_brokers
from sluicegate_operator.cli.fleets.kubernetes_view import KubernetesView, node_view
from sluicegate_operator.cli.fleets.quotas import quotas
from sluicegate_operator.cli.fleets.status import status
from sluicegate_operator.kube.http.api_server import Kubeconfig
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import POD, Kind
from tests.support.manifests.bad_manifests import cluster, external, listener, quota
from tests.unit.sluicegate_operator.cli.asking.test_quota_rows import LIMITS

Json = dict[str, Any]

NOT_FOUND: Json = {"code": 404}
BROKERS = {
    "clusterId": "id",
    "controllerId": 1000,
    "controllerEpoch": 3,
    "metadataOffset": 9,
    "brokers": [
        {
            "id": 0,
            "epoch": 5,
            "incarnation": "00000000-0000-0000-0000-000000000000",
            "state": "Online",
            "leaders": 3,
            "replicas": 7,
            "outOfSync": 1,
            "rack": None,
            "heartbeatAgeSeconds": 0.5,
            "metadataLag": 0,
            "host": "10.1.0.7",
        }
    ],
}


def a_pod(name: str, role: str, of: str = "shop", **state: Any) -> Json:
    ready = {"type": "Ready", "status": "True"}
    labels = {
        "sluicegate.dev/cluster": of,
        "app.kubernetes.io/component": role,
        "app.kubernetes.io/managed-by": "sluicegate-operator",
    }
    found = {"phase": "Running", "podIP": "10.1.0.7", "conditions": [ready], "containerStatuses": [{"restartCount": 2}]}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": {"sluicegate.dev/revision": "{}"}},
        "status": found | state,
    }


def said(document: Json, status_: str, message: str, **more: Any) -> Json:
    """The object with a status as the operator writes it."""
    condition = {"type": "Ready", "status": status_, "reason": "Because", "message": message}
    return document | {"status": {"conditions": [condition], **more}}


class Kube:
    """The part of KubeClient used here. `answers` are those of nodes, by pod and path."""

    def __init__(self, pods: list[Json], objects: list[Json], answers: Mapping[str, Json]) -> None:
        self.pods = pods
        self.objects = objects
        self.answers = answers
        self.selectors: list[str] = []
        self.unlisted: dict[str, int] = {}

    async def list(self, kind: Kind, namespace: str, selector: str = "") -> list[Json]:
        assert namespace == "kafka"
        if kind is POD:
            self.selectors.append(selector)
            return self.pods
        if (status_ := self.unlisted.get(kind.kind)) is not None:
            raise KubeError(f"{kind.plural} is forbidden", status_)
        return [one for one in self.objects if one["kind"] == kind.kind]

    async def read(self, path: str) -> Json | None:
        pod, _, target = path.partition("/pods/")[2].partition(":9404/proxy")
        if (found := self.answers.get(f"{pod} {target}")) is None:
            raise KubeError(f"GET {path}: 503 it does not answer", 503)
        return None if found is NOT_FOUND else found

    def close(self) -> None:
        pass


def kafka() -> Kube:
    pods = [
        a_pod("shop-brokers-0", "broker"),
        a_pod("shop-brokers-1", "broker", conditions=[{"type": "Ready", "status": "False", "message": "it starts"}]),
        a_pod("shop-controllers-0", "controller"),
        a_pod("shop-controllers-1", "controller"),
        a_pod("ledger-hourly-1", "audit"),
    ]
    rollout = {"reason": "Blocked", "message": "broker 1 does not start", "waiting": ["shop-brokers-1"]}
    objects = [
        said(cluster(), "False", "1/2 brokers ready", rollout=rollout),
        listener(),
        said(quota({"listener": "EXTERNAL"}), "True", "enforced by all 2 brokers"),
    ]
    others = quota({"broker": {}}) | {"metadata": {"name": "others"}}
    others["spec"] |= {"clusterRef": {"name": "bar"}}
    answers: dict[str, Json] = {
        "shop-brokers-0 /connection-limits?after=": LIMITS | {"ips": {}, "next": None},
        "shop-brokers-0 /connection-quotas?after=": {"groups": {}, "next": None},
        "shop-controllers-1 /brokers": BROKERS,
    }
    return Kube(pods, [*objects, others], answers)


async def look(kube: Kube, cluster_: str | None = None) -> Any:
    [found] = await KubernetesView(kube, "kafka", cluster_).read_clusters()  # type: ignore[arg-type]
    return found


async def test_nodes_brokers_resources_and_quotas_of_a_cluster() -> None:
    kube = kafka()
    seen = await look(kube)
    assert [(node.role, node.id, node.pod, node.problem) for node in seen.nodes] == [
        ("broker", 0, "shop-brokers-0", None),
        ("broker", 1, "shop-brokers-1", "it starts"),
        ("controller", 1000, "shop-controllers-0", None),
        ("controller", 1001, "shop-controllers-1", None),
    ]
    assert seen.nodes[0].listeners == {"INTERNAL": "10.1.0.7:9091", "EXTERNAL": "10.1.0.7:9094"}
    assert (seen.nodes[0].restarts, seen.nodes[0].http) == (2, "10.1.0.7:9404")
    [broker] = seen.brokers
    assert (broker.state, broker.leaders, broker.address) == ("Online", 3, "10.1.0.7:9094")
    assert seen.unseen == "", "one controller of two answers, as the other one is a standby"
    assert [row.target for row in seen.quotas] == ["broker", "listener EXTERNAL", "defaultIp"]
    assert seen.quotas[1].blocked_share == 0.62
    assert seen.progress["roll"]["phase"] == "Blocked"
    assert [(row["kind"], row["ready"], row["message"]) for row in seen.resources] == [
        ("BrokerCluster", False, "1/2 brokers ready"),
        ("BrokerListener", False, "the operator has not reconciled it yet"),
        ("ConnectionQuota", True, "enforced by all 2 brokers"),
    ]
    assert kube.selectors == ["sluicegate.dev/cluster,app.kubernetes.io/managed-by=sluicegate-operator"]


async def test_nodes_that_do_not_answer_are_reported() -> None:
    kube = kafka()
    kube.answers = {}
    seen = await look(kube, "shop")
    assert "503 it does not answer" in seen.nodes[0].problem
    assert "shop-controllers-0: " in seen.unseen
    assert "shop-controllers-1: " in seen.unseen
    assert (seen.brokers, seen.quotas) == ((), ())
    assert kube.selectors == ["sluicegate.dev/cluster=shop,app.kubernetes.io/managed-by=sluicegate-operator"]


async def test_a_ready_broker_of_an_earlier_release_is_shown_without_limits() -> None:
    kube = kafka()
    kube.answers = {**kube.answers, "shop-brokers-0 /connection-limits?after=": NOT_FOUND}
    seen = await look(kube)
    assert (seen.nodes[0].problem, seen.nodes[0].limits_unseen) == (
        None,
        "the broker's release does not support this request",
    )
    assert seen.quotas == ()
    assert (
        silent_brokers([seen])[0]
        == "broker 0 of shop did not report its limits: the broker's release does not support this request"
    )


async def test_one_broker_that_answers_in_another_form_takes_no_row_of_another() -> None:
    kube = kafka()
    kube.pods[1] = a_pod("shop-brokers-1", "broker")
    other: Json = {"broker": {}, "groups": {}, "next": None}
    of_other = (f"shop-brokers-1 /connection-{what}?after=" for what in ("limits", "quotas"))
    kube.answers = {**kube.answers, **dict.fromkeys(of_other, other)}
    seen = await look(kube)
    assert {row.broker_id for row in seen.quotas} == {0}
    assert "the broker's release returns another format" in silent_brokers([seen])[0]


@pytest.mark.parametrize("name", ["shop-debug", "shop-brokers-x", "bar-brokers-0"])
async def test_a_pod_with_the_labels_and_without_the_name_of_a_node_is_left_out(name: str) -> None:
    kube = kafka()
    kube.pods = [pod for pod in kube.pods if "brokers" in pod["metadata"]["name"]]
    before = await look(kube)
    kube.pods.append(a_pod(name, "broker"))
    assert await look(kube) == before
    asked = await brokers_in_kubernetes(kube, "kafka", None)  # type: ignore[arg-type]
    assert [broker.broker_id for broker in asked] == [0, 1]


async def test_a_kind_that_cannot_be_listed_is_reported_beside_the_others() -> None:
    kube = kafka()
    kube.unlisted = {"AuditPipeline": 403, "ObserverPlugin": 404}
    seen = await look(kube)
    assert [row["message"] for row in seen.resources if row["name"] == "-"] == [
        "cannot be listed: auditpipelines is forbidden",
        "cannot be listed: observerplugins is forbidden",
    ]
    assert len(seen.resources) == 5
    assert len(seen.quotas) == 3


@pytest.mark.parametrize(("kind", "status_"), [("BrokerCluster", 403), ("Topic", 500)])
async def test_without_clusters_or_an_answer_there_is_nothing_to_show(kind: str, status_: int) -> None:
    kube = kafka()
    kube.unlisted = {kind: status_}
    with pytest.raises(KubeError):
        await look(kube)


async def test_a_cluster_of_others_has_its_resources() -> None:
    seen = await look(Kube([], [said(external(), "True", "all 3 brokers answer")], {}))
    assert (seen.nodes, seen.unseen) == ((), "")
    assert seen.resources[0]["message"] == "all 3 brokers answer"


@pytest.mark.parametrize(("asked", "words"), [(None, "has no BrokerCluster;"), ("y", "has no BrokerCluster y;")])
async def test_a_namespace_without_the_cluster_is_said(asked: str | None, words: str) -> None:
    with pytest.raises(NobodyToAskError, match=f"namespace kafka {words} set the namespace with -n"):
        await KubernetesView(Kube([], [], {}), "kafka", asked).read_clusters()  # type: ignore[arg-type]


NOT_SCHEDULED = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
PULLING = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({}, None),
        ({"conditions": [NOT_SCHEDULED], "containerStatuses": None, "podIP": None}, "0/3 nodes are available"),
        ({"containerStatuses": [PULLING]}, "ImagePullBackOff: no such image"),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, "Ready is False"),
        ({"conditions": None, "phase": "Pending"}, "Pending"),
    ],
)
def test_why_a_node_is_not_ready(state: Json, problem: str | None) -> None:
    assert node_view(a_pod("shop-brokers-0", "broker", **state), {}).problem == problem


async def test_the_table_names_pods() -> None:
    out = io.StringIO()
    Console(file=out, width=140).print(nodes_table(await look(kafka())))
    assert "shop-brokers-1" in out.getvalue()
    assert " pid " not in out.getvalue()


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, str | None]]:
    """The kubeconfig and the context of each client that was made; all of them reach the same cluster."""
    made: list[tuple[str | None, str | None]] = []

    def client(kubeconfig: Kubeconfig) -> Kube:
        made.append((kubeconfig.file, kubeconfig.context))
        return kafka()

    monkeypatch.setattr(kubernetes_asked, "KubeClient", client)
    return made


def run(command: Any, *arguments: str) -> tuple[int, str, str]:
    app = typer.Typer()
    app.command()(command)
    done = CliRunner(env={"COLUMNS": "140"}).invoke(app, list(arguments))
    return done.exit_code, done.stdout, done.stderr


def test_the_commands_ask_in_kubernetes(commands: list[tuple[str | None, str | None]]) -> None:
    code, out, _ = run(status, "-n", "kafka", "--context", "prod")
    assert code == 1, "a node is not ready"
    assert "Brokers of shop" in out
    assert "enforced by all 2 brokers" in out
    code, out, _ = run(quotas, "-n", "kafka", "--kubeconfig", "there", "--cluster", "shop")
    assert (code, "listener EXTERNAL" in out, "62%" in out) == (1, True, True)
    assert "broker 1 of shop did not report its limits: it starts" in out
    assert commands == [(None, "prod"), ("there", None)]


@pytest.mark.parametrize("command", [status, quotas])
def test_a_bad_question_is_one_sentence(command: Any, commands: list[tuple[str | None, str | None]]) -> None:
    code, _, words = run(command, "-n", "No Such")
    assert (code, words[:48]) == (2, "'No Such' is not a valid name of a pod or namesp")
    code, _, words = run(command, "-n", "kafka", "--cluster", "bar")
    assert (code, words) == (2, "namespace kafka has no BrokerCluster bar; set the namespace with -n NAMESPACE\n")


@contextmanager
def broken() -> Any:
    raise KubeError("no configuration for a Kubernetes API server")
    yield


def test_without_an_api_server_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_asked.Place, "client", lambda _: broken())
    assert run(status, "-n", "kafka") == (1, "", "no configuration for a Kubernetes API server\n")
