"""The cluster `shop` of examples/quickstart on real nodes, and its installation there."""

import json
from dataclasses import dataclass

from e2e.cluster.waiting import wait_for
from e2e.nodes.site.kube import Kube
from e2e.world.operator_process import OPERATOR_NAMESPACE
from e2e.world.shop import BROKERS, CLUSTER, NAMESPACE, QUICKSTART, READY_TIMEOUT_S, ROLLED_TIMEOUT_S, Json, ShopInApi
from e2e.world.shop import condition_of as condition_of
from tests.support.obtain.helm import CHART, RELEASE, helm

BROKER_PODS = f"app.kubernetes.io/component=broker,sluicegate.dev/cluster={CLUSTER}"
OPERATOR_PODS = "app.kubernetes.io/name=sluicegate-operator"
RESYNC_S = 3
"""Interval of drift detection, in seconds; the default of 60 s is too slow for tests."""


def install_operator(*values: str) -> None:
    """Install the chart as README does; `values` are further values of it, each as KEY=VALUE."""
    options = [word for value in (f"settings.resyncSeconds={RESYNC_S}", *values) for word in ("--set", value)]
    helm(
        "upgrade", "--install", RELEASE, str(CHART), "-n", OPERATOR_NAMESPACE, "--create-namespace", "--wait", *options
    )


@dataclass(frozen=True, slots=True)
class NodeBroker:
    """The facts about a broker that change with any restart, and its node."""

    pod: str
    uid: str
    restarts: int
    container: str
    node: str


class NodeShop(ShopInApi):
    """The cluster with pods on nodes."""

    plane: Kube

    def __init__(self, kube: Kube) -> None:
        super().__init__(kube)

    def settle(self) -> None:
        """Restore the repository's quickstart: rolled out, its quota in force, all brokers back and in sync."""
        self.plane.kubectl("apply", "-f", str(QUICKSTART))
        self.await_settled()

    def await_settled(self, brokers: int = BROKERS) -> None:
        def look() -> bool:
            pods = self.broker_pods(deleting=True)
            rolling = condition_of(self.cluster(), "Rolling")
            assert [pod.ready for pod in pods] == [True] * brokers, f"pods {pods}"
            assert rolling.get("status") == "False", f"rolling {rolling}"
            return self.all_in_sync()

        self.await_condition("brokercluster", CLUSTER, "Ready", "True", timeout_s=ROLLED_TIMEOUT_S)
        wait_for("all brokers back and in sync", look, timeout_s=ROLLED_TIMEOUT_S, interval_s=0.2)
        self.await_enforced("shop-external-rate", f"{brokers}/{brokers}")

    def running(self) -> list[NodeBroker]:
        """Brokers in the order of names, without those being deleted."""
        listed = self.plane.get("pods", "-l", BROKER_PODS)["items"]
        return sorted((_node_broker(pod) for pod in listed if "deletionTimestamp" not in pod["metadata"]), key=_pod)

    def started(self) -> dict[str, float]:
        """Start time of each broker's process, from its metrics."""
        return {pod.name: self.metric(pod, "process_start_time_seconds") for pod in self.broker_pods()}

    def uids(self) -> dict[int, str]:
        return {pod.id: pod.uid for pod in self.broker_pods()}

    def await_replaced(self, broker_id: int, uid: str) -> None:
        """Wait until another pod of that broker is ready."""

        def look() -> bool:
            pod = self.pod(broker_id)
            return pod.uid != uid and pod.ready

        wait_for(f"broker {broker_id} is back", look, timeout_s=READY_TIMEOUT_S, interval_s=0.1)

    def evict(self, pod: str) -> None:
        """Evict a pod as `kubectl drain` does: a PodDisruptionBudget may refuse."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
        self.plane.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(body))

    def working_sets_mib(self) -> dict[str, float]:
        """Return the memory of every pod with kubelet statistics, by name: a pod without them uses no memory yet."""
        found = {}
        for node in self.plane.get("nodes")["items"]:
            path = f"/api/v1/nodes/{node['metadata']['name']}/proxy/stats/summary"
            for pod in json.loads(self.plane.kubectl("get", "--raw", path))["pods"]:
                if size := pod.get("memory", {}).get("workingSetBytes"):
                    found[pod["podRef"]["name"]] = size / 2**20
        return found

    def operator_pods(self) -> list[Json]:
        found: list[Json] = self.plane.get("pods", "-n", OPERATOR_NAMESPACE, "-l", OPERATOR_PODS)["items"]
        return found


def _pod(broker: NodeBroker) -> str:
    return broker.pod


def _node_broker(pod: Json) -> NodeBroker:
    # A pod that waits for a node has no container statuses yet.
    status = (pod["status"].get("containerStatuses") or [{"restartCount": 0}])[0]
    return NodeBroker(
        pod=pod["metadata"]["name"],
        uid=pod["metadata"]["uid"],
        restarts=status["restartCount"],
        container=status.get("containerID", ""),
        node=pod["spec"].get("nodeName", ""),
    )
