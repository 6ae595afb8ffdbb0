"""The cluster `shop` of examples/quickstart on a control plane, with the queries and operations of tests."""

import asyncio
import json
import re
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Protocol, TypeVar

import yaml

from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.waiting import wait_for
from e2e.world.operator_process import OperatorProcess
from sluicegate_operator.api.kinds import KINDS as CUSTOM_KINDS
from sluicegate_operator.cli.storms.storm_load import Storm, StormPlan
from sluicegate_operator.cli.storms.storm_report import StormReport
from sluicegate_operator.kafka_admin.client import AdminClient, BrokerHandle
from sluicegate_operator.kafka_admin.configs import ConfigChange
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from tests.support.processes.process_kubelet.kubelet import ProcessKubelet

T = TypeVar("T")
Json = dict[str, Any]

NAMESPACE = "default"
CLUSTER = "shop"
BROKERS = 3
EXTERNAL_PORT = 9094
HTTP_PORT = 9404
EXTERNAL_RATE_KEY = "listener.name.external.max.connection.creation.rate"
QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"
LAPTOP = Path(__file__).parents[2] / "examples" / "laptop"
"""For pods that are processes on this machine."""
CRDS = Path(__file__).parents[2] / "crds"
KINDS = tuple(kind.plural for kind in CUSTOM_KINDS.values())
UNLIMITED = 2147483647

READY_TIMEOUT_S = 120.0
ROLLED_TIMEOUT_S = 240.0
ENFORCED_TIMEOUT_S = 60.0
"""Longest wait for enforcement. The target of one second is checked against the status, not against this.

A killed operator may hold the Lease for 15 s more.
"""
ANSWER_TIMEOUT_S = 10.0


class NotAnsweredError(AssertionError):
    """The queried component is not there: 'not yet' for a test that waits, a failure for others."""


@contextmanager
def answer_of(who: str) -> Iterator[None]:
    try:
        yield
    except (OSError, HTTPException, LookupError, KafkaAdminError) as silence:
        raise NotAnsweredError(f"{who} does not answer: {silence!r}") from silence


@dataclass(frozen=True, slots=True)
class BrokerPod:
    id: int
    name: str
    uid: str
    address: str
    ready: bool
    restarts: int
    http_port: int
    internal_port: int
    deleting: bool = False


class Api(Protocol):
    """A Kubernetes API server, by kubectl."""

    def kubectl(self, *arguments: str, input: str | None = None) -> str: ...

    def get(self, *arguments: str) -> Any: ...


class ShopInApi:
    """Queries and operations by the API server and the brokers, independent of where the pods run."""

    def __init__(self, plane: Api) -> None:
        self.plane = plane

    # -- resources ---------------------------------------------------------------------------------------------

    def apply(self, *documents: Json) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        self.plane.kubectl("apply", "-f", "-", input=json.dumps(listed))

    def delete(self, kind: str, name: str, *arguments: str) -> None:
        self.plane.kubectl("delete", kind, name, "--ignore-not-found", *arguments)

    def quota(self, name: str) -> Json:
        found: Json = self.plane.get("connectionquota", name)
        return found

    def await_enforced(
        self, name: str, brokers: str = f"{BROKERS}/{BROKERS}", *, timeout_s: float = ENFORCED_TIMEOUT_S
    ) -> Json:
        """Wait until the conditions are about the newest spec and `brokers` brokers enforce the quota; return it.

        While a broker lags, status.observedGeneration stays behind on purpose: the outcome is not known yet.
        """

        def look() -> Json:
            quota = self.quota(name)
            status: Json = quota.get("status", {})
            ready = condition_of(quota, "Ready")
            assert ready.get("observedGeneration") == quota["metadata"]["generation"], f"status {status}"
            assert status.get("brokers") == brokers, f"status {status}"
            return quota

        return wait_for(f"quota {name} on {brokers} brokers", look, timeout_s=timeout_s, interval_s=0.1)

    def await_condition(
        self, kind: str, name: str, condition: str, status: str, *, timeout_s: float = ENFORCED_TIMEOUT_S
    ) -> Json:
        def look() -> Json:
            document = self.plane.get(kind, name)
            found = condition_of(document, condition)
            assert found.get("status") == status, f"status {document.get('status')}"
            assert found.get("observedGeneration") == document["metadata"]["generation"], f"condition {found}"
            return found

        return wait_for(f"{kind} {name} has {condition}={status}", look, timeout_s=timeout_s, interval_s=0.1)

    # -- the controller's view ---------------------------------------------------------------------------------

    def registration(self, broker_id: int) -> Json:
        """Status of the broker's registration; empty if it does not exist yet."""
        found: Json = json.loads(
            self.plane.kubectl("get", "br", f"{CLUSTER}-{broker_id}", "-o", "json", "--ignore-not-found") or "{}"
        )
        status: Json = found.get("status", {})
        return status

    def states(self) -> dict[int, str]:
        listed = self.plane.get("brokerregistrations")["items"]
        found = {r["spec"]["brokerId"]: r["status"].get("state", "") for r in listed if "status" in r}
        return dict(sorted(found.items()))

    def await_state(self, broker_id: int, state: str, *, timeout_s: float = READY_TIMEOUT_S) -> Json:
        def look() -> Json:
            status = self.registration(broker_id)
            assert status.get("state") == state, f"status {status}"
            return status

        return wait_for(f"broker {broker_id} is {state}", look, timeout_s=timeout_s, interval_s=0.05)

    def controllers_view(self) -> dict[int, Json]:
        """The active controller's own view, without the operator."""
        with answer_of("the controller"):
            address = self.address(f"{CLUSTER}-controllers-0")
            url = f"http://{address}:{HTTP_PORT}/brokers"
            with urllib.request.urlopen(url, timeout=ANSWER_TIMEOUT_S) as answer:
                brokers = json.loads(answer.read())["brokers"]
        return {broker["id"]: broker for broker in brokers}

    def all_in_sync(self) -> bool:
        try:
            view = self.controllers_view()
        except NotAnsweredError:
            return False
        return all(broker["state"] == "Online" and broker["outOfSync"] == 0 for broker in view.values())

    def cluster(self) -> Json:
        found: Json = self.plane.get("brokercluster", CLUSTER)
        return found

    def change_cluster(
        self, brokers: Json | None = None, config: Json | None = None, rollout: Json | None = None
    ) -> None:
        """Apply the quickstart's BrokerCluster with these fields on top, as a user with an edited file would."""
        document = yaml.safe_load((QUICKSTART / "cluster.yaml").read_text())
        document["spec"]["brokers"] |= brokers or {}
        document["spec"]["config"] |= config or {}
        document["spec"] |= {"rollout": rollout} if rollout else {}
        self.apply(document)

    def events(self, name: str = CLUSTER) -> list[Json]:
        found: list[Json] = self.plane.get("events", f"--field-selector=involvedObject.name={name}")["items"]
        return found

    def bootstrap(self) -> str:
        return ",".join(f"{pod.address}:{EXTERNAL_PORT}" for pod in self.broker_pods())

    # -- brokers -----------------------------------------------------------------------------------------------

    def broker_pods(self, cluster: str = CLUSTER, *, deleting: bool = False) -> list[BrokerPod]:
        selector = f"app.kubernetes.io/component=broker,sluicegate.dev/cluster={cluster}"
        listed = self.plane.get("pods", "-l", selector)["items"]
        pods = [pod for pod in map(broker_pod, listed) if deleting or not pod.deleting]
        return sorted(pods, key=lambda pod: pod.id)

    def node_pods(self) -> list[Json]:
        """Pods of brokers and controllers, also those being deleted."""
        found: list[Json] = self.plane.get("pods", "-l", f"sluicegate.dev/cluster={CLUSTER}")["items"]
        return found

    def address(self, pod: str) -> str:
        """Address of the pod, or an empty string if it has none yet."""
        found: str = self.plane.get("pod", pod).get("status", {}).get("podIP", "")
        return found

    def pod(self, broker_id: int) -> BrokerPod:
        found = next((pod for pod in self.broker_pods() if pod.id == broker_id), None)
        assert found is not None, f"broker {broker_id} has no pod"
        return found

    def metric(self, pod: BrokerPod, series: str) -> float:
        """Return a metric's value. `series` is `name` or `name{label="value"}` as in the exposition."""
        url = f"http://{pod.address}:{pod.http_port}/metrics"
        with answer_of(pod.name), urllib.request.urlopen(url, timeout=ANSWER_TIMEOUT_S) as answer:
            text = answer.read().decode()
        found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
        assert found is not None, f"broker {pod.id} has no metric {series}"
        return float(found.group(1))

    def admin(self, pod: BrokerPod, work: Callable[[BrokerHandle], Coroutine[Any, Any, T]]) -> T:
        async def run() -> T:
            async with AdminClient([(pod.address, pod.internal_port)]) as client:
                return await work(client.broker(pod.address, pod.internal_port))

        with answer_of(pod.name):
            return asyncio.run(run())

    def external_rates(self) -> list[int]:
        """The effective limit of listener EXTERNAL on each running broker, read from the broker itself."""
        return [self.broker_config(pod, EXTERNAL_RATE_KEY) for pod in self.broker_pods() if pod.ready]

    def broker_config(self, pod: BrokerPod, key: str) -> int:
        async def read(broker: BrokerHandle) -> int:
            configs = await broker.describe_broker_configs(pod.id, [key])
            return int((configs[key].value if key in configs else None) or UNLIMITED)

        return self.admin(pod, read)

    def observers(self, pod: BrokerPod) -> str:
        """observer.class.names as read from the broker."""

        async def read(broker: BrokerHandle) -> str:
            configs = await broker.describe_broker_configs(pod.id, ["observer.class.names"])
            return configs["observer.class.names"].value or ""

        return self.admin(pod, read)

    def ip_rates(self, pod: BrokerPod) -> dict[str | None, float]:
        return self.admin(pod, lambda broker: broker.describe_ip_quotas())

    def alter_by_hand(self, pod: BrokerPod, broker_id: int | None, change: ConfigChange) -> None:
        """Change configuration as with kafka-configs; None changes the default of all brokers."""
        self.admin(pod, lambda broker: broker.incremental_alter_configs(broker_id, change))

    def await_external_rate(self, rate: int) -> None:
        wait_for(
            f"EXTERNAL limited to {rate} on {BROKERS} brokers",
            lambda: self.external_rates() == [rate] * BROKERS,
            timeout_s=ENFORCED_TIMEOUT_S,
            interval_s=0.1,
        )

    # -- load --------------------------------------------------------------------------------------------------

    def storm(self, pod: BrokerPod, *, rate: float, seconds: float, source: str = "127.0.1.1") -> StormReport:
        plan = StormPlan(
            address=pod.address,
            port=EXTERNAL_PORT,
            seconds=seconds,
            rate=rate,
            sources=(source,),
            timeout_s=seconds,
        )
        return Storm(plan).run()


class Shop(ShopInApi):
    """The cluster with pods that are processes of this machine."""

    plane: ControlPlane

    def __init__(self, plane: ControlPlane, kubelet: ProcessKubelet, operator: OperatorProcess) -> None:
        super().__init__(plane)
        self.kubelet = kubelet
        self.operator = operator

    def settle(self) -> None:
        """Restore the repository's quickstart: rolled out, with each of its quotas in force on every broker."""
        self.plane.kubectl("apply", "-f", str(QUICKSTART), "-f", str(LAPTOP))
        wait_for("all brokers ready", self.all_brokers_ready, timeout_s=READY_TIMEOUT_S, interval_s=0.2)
        for name in ("shop-external-rate", "shop-noisy-neighbour"):
            self.await_enforced(name)
        self.await_condition("brokercluster", CLUSTER, "Ready", "True", timeout_s=ROLLED_TIMEOUT_S)

    def all_brokers_ready(self) -> bool:
        self.operator.must_run()
        self.kubelet.must_run()
        pods = self.broker_pods()
        return len(pods) == BROKERS and all(pod.ready for pod in pods)

    def address(self, pod: str) -> str:
        return self.kubelet.address(NAMESPACE, pod)

    def fingerprint(self) -> list[tuple[str, int, list[int], float]]:
        """What changes if a broker is restarted in any way."""
        return [
            (
                pod.uid,
                pod.restarts,
                self.kubelet.pids(NAMESPACE, pod.name),
                self.metric(pod, "process_start_time_seconds"),
            )
            for pod in self.broker_pods()
        ]


def install_crds(plane: ControlPlane) -> None:
    """Apply the CRDs, and wait until the API server explains and stores them."""
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))
    wait_for("the CRDs in the API server's OpenAPI", lambda: all(plane.kubectl("explain", kind) for kind in KINDS))
    # The API server establishes a CRD before it opens the storage of the kind: until then it answers 429.
    wait_for("the storage of the CRDs", lambda: plane.kubectl("get", ",".join(KINDS), "-A", "-o", "json"))


def broker_pod(pod: Json) -> BrokerPod:
    [container] = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    statuses = pod.get("status", {}).get("containerStatuses") or [{"ready": False, "restartCount": 0}]
    name = pod["metadata"]["name"]
    return BrokerPod(
        id=int(name.rpartition("-")[2]),
        name=name,
        uid=pod["metadata"]["uid"],
        address=pod.get("status", {}).get("podIP", ""),
        ready=condition_of(pod, "Ready").get("status") == "True",
        restarts=statuses[0]["restartCount"],
        http_port=ports["http"],
        internal_port=ports["internal"],
        deleting="deletionTimestamp" in pod["metadata"],
    )


def condition_of(document: Json, kind: str) -> Json:
    conditions: list[Json] = document.get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == kind), {})


def quota_document(name: str, target: Json, **limits: int) -> Json:
    return {
        "apiVersion": "sluicegate.dev/v1alpha1",
        "kind": "ConnectionQuota",
        "metadata": {"name": name},
        "spec": {"clusterRef": {"name": CLUSTER}, "target": target, **limits},
    }
