"""Three controllers that share a journal in the API server: examples/high-availability in a separate namespace."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from e2e.cluster.control_plane import ControlPlane, KubectlError
from e2e.cluster.waiting import wait_for
from e2e.world.operator_process import REPOSITORY, OperatorProcess
from e2e.world.shop import ANSWER_TIMEOUT_S, CLUSTER, EXTERNAL_PORT, HTTP_PORT, ROLLED_TIMEOUT_S, Json, condition_of
from sluicegate_operator.api import BrokerCluster
from sluicegate_operator.resources.controller_role import journal_rights
from sluicegate_operator.resources.labels import REVISION
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload, create_topic
from tests.support.processes.process_kubelet.api import Access, ApiRefused, KubeApi
from tests.support.processes.process_kubelet.kubelet import ProcessKubelet

NAMESPACE = "high-availability"
EXAMPLE = REPOSITORY / "examples" / "high-availability"
JOURNAL = "sluicegate.dev/journal"
OPERATOR_ACCOUNT = "system:serviceaccount:sluicegate-system:sluicegate-operator"
NODES = 3
"""Number of brokers, and of controllers."""
FIRST_ID = 1000
TAKEOVER_MAX_S = 10.0
"""A standby takes over if the Lease has not been renewed for 4 s."""
GAP_MAX_S = 3.0
"""Longest gap of producers while controllers change: less than the Lease, which is how long no controller is active."""
CONTROLLERS = f"app.kubernetes.io/component=controller,sluicegate.dev/cluster={CLUSTER}"
TOPIC, PARTITIONS = "orders", 6
PAUSE_S = 0.01


@dataclass(frozen=True, slots=True)
class Trio:
    plane: ControlPlane
    kubelet: ProcessKubelet
    operator: OperatorProcess

    def get(self, *arguments: str) -> Json:
        found: Json = self.plane.get("-n", NAMESPACE, *arguments)
        return found

    def pods(self, role: str) -> list[Json]:
        """Pods of a role by name, without those being deleted."""
        selector = f"app.kubernetes.io/component={role},sluicegate.dev/cluster={CLUSTER}"
        listed: list[Json] = self.get("pods", "-l", selector)["items"]
        present = [pod for pod in listed if "deletionTimestamp" not in pod["metadata"]]
        return sorted(present, key=lambda pod: str(pod["metadata"]["name"]))

    def uids(self, role: str) -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.pods(role)}

    def journal(self, kinds: str = "configmaps,leases") -> list[Json]:
        found: list[Json] = self.get(kinds, "-l", JOURNAL)["items"]
        return found

    def ask(self, controller_id: int) -> tuple[int, Json]:
        """Status and body of a controller's view; (0, {}) if it does not answer."""
        try:
            address = self.kubelet.address(NAMESPACE, pod_name(controller_id))
            with urllib.request.urlopen(f"http://{address}:{HTTP_PORT}/brokers", timeout=ANSWER_TIMEOUT_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.loads(refusal.read())
        except (LookupError, OSError):
            return 0, {}

    def active(self) -> list[int]:
        return [node_id for node_id in range(FIRST_ID, FIRST_ID + NODES) if self.ask(node_id)[0] == 200]

    def the_active(self) -> int:
        def look() -> list[int]:
            found = self.active()
            assert len(found) == 1, f"active are {found}"
            return found

        return wait_for("one active controller", look)[0]

    def view(self) -> Json:
        return next((body for status, body in map(self.ask, range(FIRST_ID, FIRST_ID + NODES)) if status == 200), {})

    def epochs(self) -> dict[int, int]:
        """Epochs of online brokers; a broker that was fenced and registered again has a new one."""
        return {b["id"]: b["epoch"] for b in self.view().get("brokers", []) if b["state"] == "Online"}

    def replicas(self) -> dict[int, int]:
        return {broker["id"]: broker["replicas"] for broker in self.view()["brokers"]}

    def bootstrap(self) -> str:
        return ",".join(f"{pod['status']['podIP']}:{EXTERNAL_PORT}" for pod in self.pods("broker"))

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap(), "log_level": 2})

    def settled(self) -> bool:
        self.operator.must_run()
        self.kubelet.must_run()
        pods = self.pods("controller") + self.pods("broker")
        cluster = self.get("brokercluster", CLUSTER)
        brokers = self.view().get("brokers", [])
        return (
            cluster.get("status", {}).get("observedGeneration") == cluster["metadata"]["generation"]
            and condition_of(cluster, "Ready").get("status") == "True"
            and condition_of(cluster, "Rolling").get("status") == "False"
            and [condition_of(pod, "Ready").get("status") for pod in pods] == ["True"] * 2 * NODES
            and [(b["state"], b["outOfSync"]) for b in brokers] == [("Online", 0)] * NODES
        )

    def await_settled(self) -> None:
        wait_for("the cluster settled", self.settled, timeout_s=ROLLED_TIMEOUT_S, interval_s=0.2)

    def load(self, topic: str) -> AcknowledgedWorkload:
        create_topic(self.bootstrap(), topic, PARTITIONS, NODES, min_insync_replicas="2")
        return AcknowledgedWorkload(self.bootstrap(), topic, PARTITIONS, pause_s=PAUSE_S)


def pod_name(controller_id: int) -> str:
    return f"{CLUSTER}-controllers-{controller_id - FIRST_ID}"


def seconds_until(what: str, look: Callable[[], object]) -> float:
    began_s = time.monotonic()
    wait_for(what, look)
    return time.monotonic() - began_s


@pytest.fixture(scope="module")
def standing_trio(plane: ControlPlane, kubelet: ProcessKubelet, operator: OperatorProcess) -> Iterator[Trio]:
    plane.kubectl("create", "namespace", NAMESPACE)
    plane.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    plane.kubectl("apply", "-n", NAMESPACE, "-f", str(EXAMPLE))
    yield Trio(plane, kubelet, operator)
    plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture
def trio(standing_trio: Trio) -> Iterator[Trio]:
    standing_trio.await_settled()
    topic_there(standing_trio)
    yield standing_trio
    for controller_id in range(FIRST_ID, FIRST_ID + NODES):
        standing_trio.kubelet.release_pod(NAMESPACE, pod_name(controller_id))


def topic_there(trio: Trio) -> None:
    def there() -> bool:
        try:
            return TOPIC in trio.admin().list_topics(timeout=ANSWER_TIMEOUT_S).topics
        except KafkaException as silence:
            raise AssertionError(f"no broker answers: {silence}") from silence

    wait_for(TOPIC, there, interval_s=0.3)


def test_the_journal_belongs_to_the_cluster_and_one_controller_writes_it(trio: Trio) -> None:
    active = trio.the_active()
    cluster = trio.get("brokercluster", CLUSTER)["metadata"]
    owners = [found["metadata"].get("ownerReferences") for found in trio.journal()]
    owner = {"apiVersion": "sluicegate.dev/v1alpha1", "kind": "BrokerCluster", "name": CLUSTER, "uid": cluster["uid"]}
    assert owners == [[owner]] * len(owners)
    [lease] = trio.journal("leases")
    assert lease["spec"]["holderIdentity"].startswith(f"{active}_")
    assert {found["metadata"]["labels"]["sluicegate.dev/journal-part"] for found in trio.journal("configmaps")} >= {
        "batch"
    }

    def said() -> set[int | None]:
        return {trio.ask(node_id)[1].get("activeControllerId", active) for node_id in range(FIRST_ID, FIRST_ID + NODES)}

    wait_for("all agree on who is active", lambda: said() == {active})


def test_the_controllers_account_may_keep_the_journal_and_nothing_else(trio: Trio) -> None:
    token = trio.plane.kubectl("create", "token", f"{CLUSTER}-journal", "-n", NAMESPACE).strip()
    api = KubeApi(Access(trio.plane.url, str(trio.plane.certificate), token))
    here, there = f"/api/v1/namespaces/{NAMESPACE}", "/api/v1/namespaces/default"
    custom = f"/apis/sluicegate.dev/v1alpha1/namespaces/{NAMESPACE}/brokerclusters"
    forbidden = [
        ("GET", f"{here}/secrets"),
        ("GET", f"{here}/pods"),
        ("POST", f"{here}/serviceaccounts/{CLUSTER}-journal/token"),
        ("GET", f"{there}/configmaps"),
        ("GET", custom),
        ("DELETE", f"{here}/configmaps"),
    ]
    try:
        assert api.get(f"{here}/configmaps")["items"]
        for method, path in forbidden:
            with pytest.raises(ApiRefused, match=r"^403: "):
                api.request(method, path, {} if method == "POST" else None)
    finally:
        api.close()


def test_the_operator_may_grant_these_rights_and_no_others(plane: ControlPlane) -> None:
    """The operator has the rights of deploy/.

    The API server refuses grants of rights that the grantor does not have.
    """
    plane.kubectl("apply", "-f", str(REPOSITORY / "deploy" / "rbac.yaml"))
    manifest = yaml.safe_load((EXAMPLE / "cluster.yaml").read_text())
    plane.kubectl("create", "namespace", "granted")
    manifest["metadata"]["namespace"] = "granted"
    plane.kubectl("apply", "-f", "-", input=json.dumps(manifest | {"spec": manifest["spec"] | {"paused": True}}))
    created = plane.get("-n", "granted", "brokercluster", CLUSTER)
    rights = journal_rights(
        BrokerCluster.model_validate(
            manifest | {"metadata": manifest["metadata"] | {"uid": created["metadata"]["uid"]}}
        )
    )

    def apply(documents: list[Json]) -> None:
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        plane.kubectl("apply", "--server-side", f"--as={OPERATOR_ACCOUNT}", "-f", "-", input=listed)

    try:
        apply(rights)
        [role] = [document for document in rights if document["kind"] == "Role"]
        more = role | {"rules": [*role["rules"], {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}
        with pytest.raises(KubectlError, match="attempting to grant RBAC permissions not currently held"):
            apply([more])
    finally:
        plane.kubectl("delete", "namespace", "granted", "--wait=false")


def test_a_controller_that_is_killed_is_followed_by_another_and_nothing_is_lost(trio: Trio) -> None:
    first = trio.the_active()
    epochs = trio.epochs()
    with trio.load("one-killed") as load:
        wait_for("the load runs", lambda: load.count > 50)
        trio.kubelet.hold_pod(NAMESPACE, pod_name(first))
        took_s = seconds_until("another active controller", lambda: trio.active() not in ([], [first]))
        assert took_s < TAKEOVER_MAX_S
        count = load.count
        wait_for("the load goes on", lambda: load.count > count + 50)
        wait_for("brokers online, and none was fenced meanwhile", lambda: trio.epochs() == epochs)
    load.check()
    assert load.longest_gap_s < GAP_MAX_S, "producers do not need a controller"


def test_controllers_that_all_are_killed_come_back_with_everything(trio: Trio) -> None:
    with trio.load("all-killed") as load:
        wait_for("the load runs", lambda: load.count > 50)
        epochs, before, replicas = trio.epochs(), trio.view(), trio.replicas()
        names = {found["metadata"]["name"] for found in trio.journal("configmaps")}
        for controller_id in range(FIRST_ID, FIRST_ID + NODES):
            trio.kubelet.kill_container(NAMESPACE, pod_name(controller_id))
        wait_for("an active controller", lambda: trio.view().get("controllerEpoch", 0) > before["controllerEpoch"])
        wait_for("brokers online", lambda: trio.epochs() == epochs)
    load.check()
    assert trio.view()["metadataOffset"] > before["metadataOffset"]
    assert trio.view()["clusterId"] == before["clusterId"]
    assert trio.replicas() == replicas
    assert names <= {found["metadata"]["name"] for found in trio.journal("configmaps")}, (
        "nothing goes before a snapshot"
    )


def test_a_roll_takes_standbys_first_and_the_active_controller_last(trio: Trio) -> None:
    """Roll controllers only, to save time: their pods report that they were started with other settings."""
    active = trio.the_active()
    before, order, back, together = trio.uids("controller"), list[str](), set[str](), list[set[str]]()
    brokers = trio.uids("broker")

    def look() -> bool:
        pods = {pod["metadata"]["name"]: pod for pod in trio.pods("controller")}
        replaced = [name for name, uid in before.items() if name not in pods or pods[name]["metadata"]["uid"] != uid]
        order.extend(name for name in replaced if name not in order)
        ready = {name for name in pods if condition_of(pods[name], "Ready").get("status") == "True"}
        back.update(ready & set(replaced))
        together.append(set(replaced) - back)
        return len(order) == len(before) and trio.settled()

    with trio.load("controllers-rolled") as load:
        wait_for("the load runs", lambda: load.count > 50)
        # The active one is marked last, because a roll may begin as soon as the first is marked.
        for pod in sorted(trio.pods("controller"), key=lambda pod: bool(pod["metadata"]["name"] == pod_name(active))):
            revision = json.loads(pod["metadata"]["annotations"][REVISION])
            revision["keys"]["num.partitions"] = "another"
            annotation = f"{REVISION}={json.dumps(revision)}"
            trio.plane.kubectl("annotate", "-n", NAMESPACE, "--overwrite", "pod", pod["metadata"]["name"], annotation)
        wait_for("rolled out", look, timeout_s=ROLLED_TIMEOUT_S, interval_s=0.1)
    standbys = {pod_name(controller_id) for controller_id in range(FIRST_ID, FIRST_ID + NODES)} - {pod_name(active)}
    assert set(order[:2]) == standbys
    assert order[2:] == [pod_name(active)]
    assert max(map(len, together)) == 1, "one at a time"
    assert trio.uids("broker") == brokers
    load.check()
    assert load.longest_gap_s < GAP_MAX_S, "producers do not need a controller"


def test_the_journal_goes_with_the_cluster(trio: Trio) -> None:
    """The last test, because the cluster is not created again."""
    assert trio.journal()
    trio.plane.kubectl("delete", "-n", NAMESPACE, "brokercluster", CLUSTER)
    wait_for("the controllers ended", lambda: trio.get("pods", "-l", CONTROLLERS)["items"] == [], interval_s=0.3)
    # Including what a controller wrote at its end.
    wait_for("nothing of the journal is left", lambda: trio.journal() == [], interval_s=0.3)
    rights = "roles,rolebindings,serviceaccounts"
    wait_for(
        "nobody has its rights", lambda: trio.get(rights, "-l", f"sluicegate.dev/cluster={CLUSTER}")["items"] == []
    )
