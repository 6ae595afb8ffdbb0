"""Brokers as pods: applies a cluster's children and finds its brokers by their pods' addresses.

Brokers are reached by pod address, so neither DNS nor endpoints stand between the operator and a limit.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.kinds import POD
from sluicegate_operator.planning.children import cluster_children, listener_children
from sluicegate_operator.planning.cluster_layout import HTTP_PORT, INTERNAL_PORT, Role
from sluicegate_operator.resources.labels import CLUSTER_LABEL, ROLE_LABEL

_ORDINAL = re.compile(r"-(\d+)$")


@dataclass(frozen=True, slots=True)
class NodePod:
    """A broker's or controller's pod; `host` is empty before it has an address."""

    name: str
    role: Role
    ordinal: int
    host: str
    ready: bool

    @property
    def address(self) -> BrokerAddress | None:
        if self.role is not Role.BROKER or not self.host:
            return None
        return BrokerAddress(self.ordinal, self.host, INTERNAL_PORT, self.host, HTTP_PORT)


def node_pod(pod: Mapping[str, Any]) -> NodePod | None:
    """None for a pod that is no node of a cluster, or that is going."""
    meta = pod["metadata"]
    ordinal = _ORDINAL.search(meta["name"])
    role = (meta.get("labels") or {}).get(ROLE_LABEL)
    if ordinal is None or role not in set(Role) or meta.get("deletionTimestamp"):
        return None
    status = pod.get("status") or {}
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    return NodePod(
        meta["name"], Role(role), int(ordinal[1]), status.get("podIP") or "", conditions.get("Ready") == "True"
    )


class KubernetesFleet:
    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def apply(self, cluster: BrokerCluster, listeners: Sequence[BrokerListener]) -> None:
        """Raises KubeError; what was applied before it stays."""
        for child in (*cluster_children(cluster, listeners), *listener_children(cluster, listeners)):
            await self._kube.apply(child)

    async def pods(self, cluster: BrokerCluster) -> list[NodePod]:
        selector = f"{CLUSTER_LABEL}={cluster.name}"
        found = await self._kube.list(POD, cluster.namespace, selector)
        return [node for pod in found if (node := node_pod(pod)) is not None]

    async def broker_addresses(self, cluster: BrokerCluster) -> tuple[BrokerAddress, ...]:
        """Of the brokers that have an address now, in order of id."""
        addresses = [address for pod in await self.pods(cluster) if (address := pod.address) is not None]
        return tuple(sorted(addresses, key=lambda address: address.broker_id))
