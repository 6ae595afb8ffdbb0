"""Warnings at `kubectl apply`: the operator's webhook on a real API server, and what happens when it does not answer.

The objects are those of the chart with admission.enabled. The API server runs on this machine and reaches the operator
by an address instead of a Service. The tests need no brokers, because warnings do not depend on them.
"""

import json
import ssl
import time
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.waiting import wait_for
from e2e.world.operator_process import OPERATOR_NAMESPACE, OperatorProcess, operator_account
from e2e.world.shop import install_crds
from e2e.world.used_rights import used_rights
from sluicegate_operator.kube.certificates.new_certificate import new_pair
from sluicegate_operator.kube.client.rights import CALLED_OF_ADMISSION
from tests.support.manifests.bad_manifests import cluster, listener, quota, topic
from tests.support.obtain.helm import render
from tests.support.processes.ports import free_port

Json = dict[str, Any]

NAME = "sluicegate-operator-admission"
CHECK_S = 0.5
TIMEOUT_S = 180.0
TIMEOUT_OF_WEBHOOK_S = 2
APPLIED_AT_ONCE = 1_000
CLIENTS = 64
MISSING = (
    "BrokerCluster absent does not exist in namespace default, or is being deleted; create it or correct clusterRef"
)
SHOP = (cluster(), listener())


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(audited=f"system:serviceaccounts:{OPERATOR_NAMESPACE}") as plane:
        install_crds(plane)
        yield plane


@pytest.fixture(scope="module")
def kubeconfig(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return operator_account(plane, tmp_path_factory.mktemp("account"))


class Webhook:
    """The objects of the chart, and operators that serve them."""

    def __init__(self, plane: ControlPlane, kubeconfig: Path, folder: Path) -> None:
        self.plane = plane
        self.port = free_port()
        self._kubeconfig = kubeconfig
        self._folder = folder

    def install(self) -> None:
        text = render("admission.enabled=true", "crds.install=false", show_only=("admission.yaml",))
        documents = [one for one in yaml.safe_load_all(text) if one]
        for document in documents:
            for webhook in document.get("webhooks", ()):
                assert webhook["failurePolicy"] == "Ignore"
                assert webhook["timeoutSeconds"] == TIMEOUT_OF_WEBHOOK_S
                path = webhook["clientConfig"].pop("service")["path"]
                webhook["clientConfig"]["url"] = f"https://127.0.0.1:{self.port}{path}"
        manifest = {"apiVersion": "v1", "kind": "List", "items": documents}
        self.plane.kubectl("apply", "-f", "-", input=json.dumps(manifest))

    def lead_to(self, port: int) -> None:
        """Let API servers call the webhook at this port from now on."""
        change = [
            {
                "op": "replace",
                "path": f"/webhooks/{number}/clientConfig/url",
                "value": f"https://127.0.0.1:{port}/{path}",
            }
            for number, path in enumerate(("warnings", "check"))
        ]
        self.plane.kubectl("patch", "validatingwebhookconfiguration", NAME, "--type=json", "-p", json.dumps(change))

    def operator(self, identity: str, *, port: int | None = None, makes_certificates: bool = True) -> OperatorProcess:
        settings = {
            "SLUICEGATE_ADMISSION_LISTENER": f"127.0.0.1:{port or self.port}",
            "SLUICEGATE_ADMISSION_HOSTS": "127.0.0.1",
            "SLUICEGATE_ADMISSION_SECRET": NAME,
            "SLUICEGATE_ADMISSION_CONFIGURATION": NAME,
            "SLUICEGATE_ADMISSION_CERTIFICATES": "Operator" if makes_certificates else "CertManager",
            "SLUICEGATE_ADMISSION_CHECK_SECONDS": str(CHECK_S),
        }
        return OperatorProcess(self._kubeconfig, self._folder / f"{identity}.log", identity, settings=settings)

    def apply(self, *documents: Json, options: tuple[str, ...] = ()) -> list[str]:
        """Apply the documents, and return the warnings that kubectl shows."""
        manifest = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        return self.plane.kubectl_warnings("apply", *options, "-f", "-", input=json.dumps(manifest))

    def await_reached(self, operator: OperatorProcess, *, reached: bool = True) -> None:
        def told() -> bool:
            operator.must_run()
            return figures(operator).get("sluicegate_admission_reachable") == float(reached)

        wait_for(f"the webhook is reached: {reached}", told, timeout_s=TIMEOUT_S)

    def await_warnings(self) -> None:
        """Wait until warnings work: a Topic is never refused, and each change of it gives a warning."""
        wait_for("warnings are given", lambda: self.apply(of("absent", topic("probe", partitions=next(NUMBERS)))))

    def clear(self) -> None:
        # One request for all quotas: kubectl would send a thousand, and wait for each.
        self.plane.kubectl("delete", "--raw", "/apis/sluicegate.dev/v1alpha1/namespaces/default/connectionquotas")
        self.plane.kubectl("delete", "brokerclusters,brokerlisteners,topics", "--all", "--wait=true")


NUMBERS = iter(range(1, 10_000))


def of(owner: str, document: Json) -> Json:
    """Return the same object with a reference to another BrokerCluster."""
    return {**document, "spec": document["spec"] | {"clusterRef": {"name": owner}}}


def named(name: str, document: Json) -> Json:
    return {**document, "metadata": {"name": name}}


def figures(operator: OperatorProcess) -> Mapping[str, float]:
    """Metrics by name and labels."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{operator.metrics_port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    except OSError as silence:
        raise AssertionError(f"no metrics: {silence}") from silence
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] not in "#")}


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Webhook:
    found = Webhook(plane, kubeconfig, tmp_path_factory.mktemp("webhook"))
    found.install()
    return found


@pytest.fixture(scope="module")
def standing(webhook: Webhook) -> Iterator[OperatorProcess]:
    with webhook.operator("standing") as operator:
        yield operator


@pytest.fixture
def operator(webhook: Webhook, standing: OperatorProcess) -> Iterator[OperatorProcess]:
    if not standing.running:
        standing.start()
    webhook.await_reached(standing)
    yield standing
    webhook.clear()


def test_what_only_the_world_refuses_is_a_warning_of_kubectl(webhook: Webhook, operator: OperatorProcess) -> None:
    assert webhook.apply(*SHOP) == [], "a listener that comes after its cluster misses nothing"
    assert webhook.apply(of("absent", topic())) == [MISSING]
    assert webhook.apply(named("lost", quota({"listener": "OTHER"}))) == [
        "no BrokerListener of cluster shop has spec.name OTHER; create it or correct target.listener"
    ]
    assert webhook.apply(named("one", quota({"ip": "10.0.0.1"}, maxConnections=5))) == []
    [held] = webhook.apply(named("two", quota({"ip": "10.0.0.1"}, maxConnections=9)))
    assert held.startswith(
        "other quotas have the same target, and these are enforced instead: maxConnections 5 of ConnectionQuota one;"
    )
    assert webhook.apply(topic("first", topicName="orders-v1")) == []
    [ruled] = webhook.apply(topic("second", topicName="orders-v1"))
    assert ruled == "topic orders-v1 already belongs to Topic first; delete one of them"
    second = {**listener("second"), "spec": listener()["spec"] | {"name": "SECOND"}}
    [port] = webhook.apply(second)
    assert port == "port 9094 is already used by BrokerListener shop-external; choose another"
    [restart] = webhook.apply(cluster(config={"num.io.threads": "9"}))
    assert restart == (
        "restarts shop-brokers-0, shop-brokers-1, shop-brokers-2, shop-controllers-0: ConfigChanged (num.io.threads)"
    )
    assert webhook.apply(cluster(config={"num.io.threads": "9", "log.retention.ms": "60000"})) == []


def test_dry_runs_and_server_side_apply_are_warned_about_and_what_is_unchanged_is_not(
    webhook: Webhook, operator: OperatorProcess
) -> None:
    lost = of("absent", topic("lost"))
    server_side = ("--server-side", "--field-manager=tool")
    assert webhook.apply(lost, options=("--dry-run=server",)) == [MISSING]
    assert webhook.apply(lost, options=server_side) == [MISSING]
    before = figures(operator)['sluicegate_admission_requests_total{result="warned"}']
    assert webhook.apply(lost, options=server_side) == []
    assert figures(operator)['sluicegate_admission_requests_total{result="warned"}'] == before, "nobody is asked"


def test_an_operator_that_waits_for_the_lease_warns_too(webhook: Webhook, operator: OperatorProcess) -> None:
    port = free_port()
    with webhook.operator("follower", port=port) as follower:
        wait_for("the follower listens", lambda: f"the webhook listens on 127.0.0.1:{port}" in follower.output())
        webhook.lead_to(port)
        webhook.await_warnings()
        told = figures(follower)
        assert told["sluicegate_leading"] == 0.0
        assert told['sluicegate_admission_requests_total{result="warned"}'] > 0
        assert "sluicegate_admission_reachable" not in told, "the leader checks"
    webhook.lead_to(webhook.port)
    webhook.await_warnings()


def test_without_an_operator_objects_are_applied_at_once(webhook: Webhook, operator: OperatorProcess) -> None:
    operator.kill()
    began_s = time.monotonic()
    assert webhook.apply(*(of("absent", topic(f"t{number}")) for number in range(5))) == []
    assert time.monotonic() - began_s < 5 * TIMEOUT_OF_WEBHOOK_S, "nothing waits for what is not there"
    operator.start()
    webhook.await_reached(operator)
    webhook.await_warnings()


def test_an_operator_that_is_stuck_delays_an_apply_by_the_time_limit(
    webhook: Webhook, operator: OperatorProcess
) -> None:
    with operator.frozen():
        assert webhook.apply(of("absent", topic("stuck"))) == []
    webhook.await_warnings()


def test_a_webhook_that_is_not_reached_is_told_in_the_log_and_as_a_metric(
    webhook: Webhook, operator: OperatorProcess
) -> None:
    webhook.lead_to(free_port())
    webhook.await_reached(operator, reached=False)
    assert "the API server does not reach the webhook 127.0.0.1" in operator.output()
    assert webhook.apply(of("absent", topic("unreached"))) == []
    webhook.lead_to(webhook.port)
    webhook.await_reached(operator)
    webhook.await_warnings()


def keep_expired(webhook: Webhook) -> None:
    """Put an expired certificate into the Secret and into the configuration of the webhook."""
    pair = new_pair(["127.0.0.1"], datetime.now(UTC), -1)
    data = {"data": pair.data()}
    webhook.plane.kubectl("patch", "secret", NAME, "-n", OPERATOR_NAMESPACE, "--type=merge", "-p", json.dumps(data))
    bundles = [
        {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": pair.data()["ca.crt"]}
        for number in range(2)
    ]
    webhook.plane.kubectl("patch", "validatingwebhookconfiguration", NAME, "--type=json", "-p", json.dumps(bundles))


def test_a_certificate_that_has_expired_refuses_nothing_and_is_told(
    webhook: Webhook, operator: OperatorProcess
) -> None:
    operator.stop()
    keep_expired(webhook)
    with webhook.operator("certmanager", makes_certificates=False) as other:
        webhook.await_reached(other, reached=False)
        assert webhook.apply(of("absent", topic("expired"))) == []
        assert "has expired" in other.output()
        ends_s = figures(other)["sluicegate_admission_certificate_expiration_timestamp_seconds"]
        assert ends_s < time.time()
        assert other.stop() == 0


def test_a_certificate_that_has_expired_is_made_again(webhook: Webhook, operator: OperatorProcess) -> None:
    keep_expired(webhook)
    webhook.await_warnings()
    webhook.await_reached(operator)
    ends_s = figures(operator)["sluicegate_admission_certificate_expiration_timestamp_seconds"]
    assert ends_s > time.time() + 80 * 86400
    bundle = webhook.plane.get("validatingwebhookconfiguration", NAME)["webhooks"][0]["clientConfig"]["caBundle"]
    secret = webhook.plane.get("secret", NAME, "-n", OPERATOR_NAMESPACE)["data"]
    assert bundle == secret["ca.crt"]


def test_a_thousand_objects_that_are_applied_at_once_are_all_stored(
    webhook: Webhook, operator: OperatorProcess
) -> None:
    assert webhook.apply(*SHOP) == []
    assert webhook.apply(named("first", quota({"ip": "10.1.0.0"}, maxConnections=5))) == []
    before = figures(operator)
    rivals = [
        named(f"q{number}", quota({"ip": "10.1.0.0"}, maxConnections=9)) for number in range(APPLIED_AT_ONCE // 2)
    ]
    others = [
        named(f"o{number}", quota({"ip": f"10.2.{number // 250}.{number % 250}"}, maxConnections=9))
        for number in range(APPLIED_AT_ONCE // 2)
    ]
    with ThreadPoolExecutor(CLIENTS) as threads:
        warned = list(
            threads.map(Client(webhook.plane).create, [one for two in zip(rivals, others, strict=True) for one in two])
        )
    after = figures(operator)
    found = len(webhook.plane.get("connectionquotas")["items"])
    assert found == APPLIED_AT_ONCE + 1
    asked = {
        result: after[name] - before[name]
        for result in ("warned", "silent", "unknown", "failed")
        for name in [f'sluicegate_admission_requests_total{{result="{result}"}}']
    }
    assert asked["failed"] == asked["unknown"] == 0
    # A loaded API server does not wait for each answer, and stores the object without its warning.
    assert 0 < sum(map(bool, warned)) <= asked["warned"]


class Client:
    """Creates objects by HTTP, because a thousand kubectls would be most of the load."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._tls = ssl.create_default_context(cafile=plane.certificate)

    def create(self, document: Json) -> list[str]:
        """Create the object, and return the Warning headers of the answer."""
        url = f"{self._plane.url}/apis/sluicegate.dev/v1alpha1/namespaces/default/connectionquotas"
        headers = {"Authorization": f"Bearer {self._plane.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(document).encode(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=60, context=self._tls) as answer:
            assert answer.status == 201
            return answer.headers.get_all("Warning") or []


def test_the_operator_used_the_rights_of_admission_and_no_others(webhook: Webhook, operator: OperatorProcess) -> None:
    with webhook.plane.audit_log.open(encoding="utf-8") as lines:
        used = used_rights(lines)
    assert {
        resource: verbs for resource, verbs in used.items() if resource in CALLED_OF_ADMISSION
    } == CALLED_OF_ADMISSION
