"""Parse pod objects of nodes, without any request.

A pod itself shows that its Kubernetes node is lost, so the operator needs no rights on nodes. The node controller sets
the pod's Ready to False. The pod's own kubelet would do so only if a container or a readiness gate is not ready.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.planning.layout.cluster_layout import FIRST_CONTROLLER_ID, INTERNAL_PORT, Role
from sluicegate_operator.planning.registrations.fencing import ContainerEnd
from sluicegate_operator.planning.rolls.pod_failures import pod_failure
from sluicegate_operator.planning.rolls.start_failures import StartFailure
from sluicegate_operator.resources.labels import ROLE_LABEL

Json = Mapping[str, Any]

_ORDINAL = re.compile(r"-(\d+)$")
LOST_REASONS = frozenset({"NodeLost", "DeletionByTaintManager"})


@dataclass(frozen=True, slots=True)
class PodCondition:
    """A condition in a pod's status."""

    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodePod:
    """A broker's or controller's pod.

    - `host`: empty before it has an address.
    - `node`: empty before it is scheduled.
    - `ready`: the pod's own Ready; `containers_ready` excludes the readiness gates.
    - `failure`: why it does not start.
    - `ended`: the last end of its container.
    - `lost_labels`: labels that it should have and lacks.
    """

    name: str
    role: Role
    ordinal: int
    host: str
    ready: bool
    uid: str = ""
    resource_version: str = ""
    containers_ready: bool = False
    deleting: bool = False
    node_lost: bool = False
    failure: StartFailure | None = None
    node: str = ""
    ended: ContainerEnd | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, PodCondition] = field(default_factory=dict)
    lost_labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def failing(self) -> str:
        return str(self.failure or "")

    @property
    def node_id(self) -> int:
        return self.ordinal if self.role is Role.BROKER else FIRST_CONTROLLER_ID + self.ordinal

    @property
    def address(self) -> BrokerAddress | None:
        """Return the address for the operator's requests; None for a pod that is being deleted."""
        if self.role is not Role.BROKER or not self.host or self.deleting:
            return None
        return BrokerAddress(self.ordinal, self.host, INTERNAL_PORT, up=self.ready)


def broker_count(cluster: BrokerCluster, pods: Sequence[NodePod]) -> int:
    """Return the number of brokers that a cluster has. A broker that is to be removed counts while its pod exists."""
    wanted = cluster.spec.broker_count
    return max([wanted, *(pod.ordinal + 1 for pod in pods if pod.role is Role.BROKER)])


def broker_addresses(pods: Sequence[NodePod]) -> tuple[BrokerAddress, ...]:
    """Return the addresses of the brokers among these pods, in order of id."""
    addresses = [address for pod in pods if (address := pod.address) is not None]
    return tuple(sorted(addresses, key=lambda address: address.broker_id))


def node_pod(pod: Json, of_role: Role | None = None) -> NodePod | None:
    """Return a broker's or controller's pod, parsed.

    Returns None for a pod that is not a node of a cluster, or whose containers have all ended for good. The role is
    that of the pod's label, unless `of_role` is given.
    """
    meta = pod["metadata"]
    ordinal = _ORDINAL.search(meta["name"])
    role = of_role or (meta.get("labels") or {}).get(ROLE_LABEL)
    status = pod.get("status") or {}
    if ordinal is None or role not in set(Role) or status.get("phase") in ("Failed", "Succeeded"):
        return None
    conditions = {
        condition["type"]: PodCondition(
            condition["status"], condition.get("reason") or "", condition.get("message") or ""
        )
        for condition in status.get("conditions") or ()
    }
    gates = [gate["conditionType"] for gate in (pod.get("spec") or {}).get("readinessGates") or ()]
    return NodePod(
        name=meta["name"],
        role=Role(role),
        ordinal=int(ordinal[1]),
        host=status.get("podIP") or "",
        ready=_holds(conditions, "Ready"),
        uid=meta.get("uid") or "",
        resource_version=meta.get("resourceVersion") or "",
        containers_ready=_holds(conditions, "ContainersReady"),
        deleting=bool(meta.get("deletionTimestamp")),
        node_lost=_node_lost(status, conditions, gates),
        failure=pod_failure(status),
        node=(pod.get("spec") or {}).get("nodeName") or "",
        ended=_ended(status, role),
        annotations=meta.get("annotations") or {},
        conditions=conditions,
    )


def _holds(conditions: Mapping[str, PodCondition], kind: str) -> bool:
    return kind in conditions and conditions[kind].status == "True"


def _node_lost(status: Json, conditions: Mapping[str, PodCondition], gates: Sequence[str]) -> bool:
    disruption = conditions.get("DisruptionTarget")
    if status.get("reason") in LOST_REASONS or status.get("phase") == "Unknown":
        return True
    if disruption is not None and disruption.status == "True" and disruption.reason in LOST_REASONS:
        return True
    own = ("ContainersReady", *gates)
    return "Ready" in conditions and not _holds(conditions, "Ready") and all(_holds(conditions, kind) for kind in own)


def _ended(status: Json, container_name: str) -> ContainerEnd | None:
    """Return the end of the node's own container, which has its role's name: sidecars may start and end."""
    named = (one for one in status.get("containerStatuses") or () if one.get("name") == container_name)
    container: Json = next(named, {})
    state = container.get("state") or {}
    end = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    if not end.get("finishedAt"):
        # The container has not ended, or the kubelet has lost its record.
        return None
    at_ms = _milliseconds(end["finishedAt"])
    began = (state.get("running") or {}).get("startedAt")
    if began and _milliseconds(began) < at_ms:
        # The host's clock was set back between the two: its times prove nothing.
        return None
    return ContainerEnd(at_ms, f"{end.get('reason') or 'Error'}, exit code {end.get('exitCode')}")


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)
