"""A separate control plane with played brokers, and a proxy between it and the operators of a test.

The pods run nothing, so that an operator can be killed at a hundred places in a minute. Each test has a namespace, and
operators that watch only that namespace.
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.waiting import wait_for
from e2e.world.forked_operator import ForkedOperator, Forks
from e2e.world.operator_process import operator_account
from sluicegate_operator.kube.lease.loop_thread import LoopThread
from tests.support.processes.process_kubelet.api import Access, Json
from tests.support.processes.proxies.api_proxy import ApiProxy
from tests.support.worlds.served_cluster import ServedCluster
from tests.support.worlds.served_clusters import ServedClusters

BROKERS = 3
SPARE = 2
"""Further brokers beyond the cluster's, for tests in which other clients scale it."""
CLUSTER = "played"
OUTSIDE = "outside"
"""External brokers, not run by the operator; tests start them."""
KINDS = "brokerclusters,brokerlisteners,connectionquotas,observerplugins,topics,auditpipelines,brokerregistrations"
READY_S = 60.0
GROUP = "sluicegate.dev/v1alpha1"


class EngineWorld:
    """The control plane, namespace and played brokers of one test. Use as `with`."""

    def __init__(self, plane: ControlPlane, forks: Forks, folder: Path, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.folder = folder
        self._forks = forks
        self._account = operator_account(plane, folder)
        self._running = ExitStack()
        self._loop = LoopThread(f"played brokers of {namespace}")
        access = Access(plane.url, str(plane.certificate), plane.token)
        self.served = ServedClusters(access, namespace, {CLUSTER: BROKERS + SPARE, OUTSIDE: BROKERS})
        self.proxy = self.new_proxy()
        self._proxies = 0

    def new_proxy(self) -> ApiProxy:
        return ApiProxy(self.plane.url, self.plane.certificate)

    def __enter__(self) -> Self:
        self.plane.kubectl("create", "namespace", self.namespace)
        self._running.enter_context(self._loop)
        self._loop.call(self.served.__aenter__())
        self._running.callback(lambda: self._loop.call(self.served.__aexit__(None, None, None)))
        self.open(self.proxy)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for topic in self.get("topics")["items"]:
            if topic["metadata"].get("finalizers"):
                self.patch("topic", topic["metadata"]["name"], {"metadata": {"finalizers": None}})
        self.plane.kubectl("delete", "namespace", self.namespace, "--wait=false")
        self._running.close()

    def open(self, proxy: ApiProxy) -> ApiProxy:
        """Open the proxy until the test ends."""
        self._loop.call(proxy.__aenter__())
        self._running.callback(lambda: self._loop.call(proxy.__aexit__(None, None, None)))
        return proxy

    def operator(
        self,
        identity: str = "one",
        *,
        proxy: ApiProxy | None = None,
        everywhere: bool = False,
        shift_s: float = 0.0,
        resync_s: float = 3,
        lease_s: int = 15,
    ) -> ForkedOperator:
        """Return an operator that is not started yet.

        It watches this test's namespace, which has its Lease, or all namespaces.
        """
        self._proxies += 1
        kubeconfig = (proxy or self.proxy).kubeconfig(self._account, self.folder / f"kubeconfig-{self._proxies}")
        arguments = () if everywhere else ("--namespace", self.namespace)
        log = self.folder / f"{identity}.log"
        return ForkedOperator(
            self._forks,
            kubeconfig,
            log,
            identity,
            arguments=arguments,
            shift_s=shift_s,
            resync_s=resync_s,
            lease_s=lease_s,
        )

    @property
    def cluster(self) -> ServedCluster:
        return self.served.clusters[CLUSTER]

    def apply(self, *documents: Json) -> None:
        self.plane.kubectl("apply", "-n", self.namespace, "-f", "-", input=json.dumps(_list(documents)))

    def patch(self, kind: str, name: str, change: Json, *arguments: str) -> None:
        self.plane.kubectl(
            "patch", kind, name, "-n", self.namespace, "--type=merge", "-p", json.dumps(change), *arguments
        )

    def delete(self, kind: str, name: str, *arguments: str) -> None:
        self.plane.kubectl("delete", kind, name, "-n", self.namespace, *arguments)

    def get(self, *arguments: str) -> Any:
        return self.plane.get(*arguments, "-n", self.namespace)

    def await_ready(self, kinds: str = "brokerclusters,connectionquotas,topics", timeout_s: float = READY_S) -> None:
        """Wait until all objects of these kinds are Ready in their newest generation."""
        wait_for(f"all {kinds} Ready", lambda: not self.unready(kinds), timeout_s=timeout_s)

    def unready(self, kinds: str) -> list[str]:
        found = [item for item in self.get(kinds)["items"] if not is_ready(item)]
        names = [f"{item['kind']} {item['metadata']['name']}: {item.get('status')}" for item in found]
        assert names == [], "; ".join(names)
        return names

    def rate(self, address: str) -> float | None:
        return self.cluster.ip_rates.get(address)

    def pods(self) -> Mapping[str, str]:
        """Uids of pods by name."""
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.get("pods")["items"]}


def is_ready(item: Json) -> bool:
    status = item.get("status") or {}
    ready = [one for one in status.get("conditions") or () if one["type"] == "Ready"]
    current = status.get("observedGeneration") == item["metadata"]["generation"]
    return bool(ready) and ready[0]["status"] == "True" and current


def _list(documents: tuple[Json, ...]) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": list(documents)}


def manifest(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec}


def cluster_document(**more: Any) -> Json:
    brokers = {"replicas": BROKERS, "storage": {"size": "1Gi"}}
    return manifest("BrokerCluster", CLUSTER, {"brokers": brokers, "config": {"num.partitions": "3"}, **more})


def of_cluster(kind: str, name: str, /, **spec: Any) -> Json:
    return manifest(kind, name, {"clusterRef": {"name": CLUSTER}, **spec})


def quota_document(name: str, address: str, rate: int) -> Json:
    return of_cluster("ConnectionQuota", name, target={"ip": address}, maxConnectionCreationRate=rate)
