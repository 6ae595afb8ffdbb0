"""A simulated node: a Node object that stays Ready and a Lease that is renewed, until the node is lost."""

from datetime import UTC, datetime
from typing import Any

from tests.support.processes.process_kubelet.api import ApiRefused, KubeApi

Json = dict[str, Any]

HEARTBEAT_INTERVAL_S = 5.0
"""Interval of heartbeats. The controller manager calls a node unreachable after 50 s without one."""

ZONE_LABEL = "topology.kubernetes.io/zone"
CAPACITY = {"cpu": "64", "memory": "64Gi", "pods": "200", "ephemeral-storage": "100Gi"}


class Node:
    """The Node object and the Lease of one simulated node."""

    def __init__(self, api: KubeApi, name: str, zone: str) -> None:
        self.name = name
        self.labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", ZONE_LABEL: zone}
        self.lost = False
        self._api = api
        self._next_beat_at = 0.0

    def register(self) -> None:
        document = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": self.labels},
            "spec": {},
        }
        try:
            self._api.create("/api/v1/nodes", document)
        except ApiRefused as error:
            if error.status != 409:
                raise

    def beat(self, now: float) -> None:
        if self.lost or now < self._next_beat_at:
            return
        self._next_beat_at = now + HEARTBEAT_INTERVAL_S
        status = {
            "conditions": [_ready("True", "KubeletReady", "plays a kubelet")],
            "capacity": CAPACITY,
            "allocatable": CAPACITY,
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "nodeInfo": _node_info(),
        }
        self._api.patch(f"/api/v1/nodes/{self.name}/status", {"status": status})
        self._renew_lease()

    def lose(self) -> None:
        """Stop the heartbeats, and write at once what the node controller writes 40 s after the last one."""
        self.lost = True
        unknown = _ready("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
        self._api.patch(f"/api/v1/nodes/{self.name}/status", {"status": {"conditions": [unknown]}})

    def restore(self) -> None:
        self.lost = False
        self._next_beat_at = 0.0

    def _renew_lease(self) -> None:
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        renew_time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": renew_time}
        try:
            self._api.patch(f"{path}/{self.name}", {"spec": spec})
        except ApiRefused as error:
            if error.status != 404:
                raise
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self.name}}
            self._api.create(path, lease | {"spec": spec})


def _ready(status: str, reason: str, message: str) -> Json:
    time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    times = {"lastHeartbeatTime": time, "lastTransitionTime": time}
    return {"type": "Ready", "status": status, "reason": reason, "message": message, **times}


def _node_info() -> Json:
    names = ("architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "kubeletVersion")
    more = ("machineID", "operatingSystem", "osImage", "systemUUID")
    return dict.fromkeys((*names, *more), "process-kubelet")
