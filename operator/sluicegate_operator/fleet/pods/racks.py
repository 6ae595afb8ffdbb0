"""The racks of brokers in pods, from the labels of the pods' Kubernetes nodes."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.pods.finding_pods import listed_pods
from sluicegate_operator.fleet.pods.nodes import read_node
from sluicegate_operator.fleet.pods.pods import NodePod
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.kinds import POD
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.registrations.racks import (
    NodeLabels,
    RackAssignment,
    RackPod,
    RacksPlan,
    nodes_to_read,
    plan_racks,
)
from sluicegate_operator.resources.labels import RACK


@dataclass(frozen=True, slots=True)
class KubernetesRacks:
    """The racks of brokers in Kubernetes: reads nodes and annotates pods. See fleet.protocol.RackFleet."""

    _kube: KubeClient

    async def plan(self, cluster: BrokerCluster, topology_key: str) -> RacksPlan:
        pods = rack_pods(await listed_pods(self._kube, cluster))
        names = nodes_to_read(pods)
        labels = await asyncio.gather(*(read_labels(self._kube, name) for name in names))
        return plan_racks(topology_key, pods, dict(zip(names, labels, strict=True)))

    async def assign(self, cluster: BrokerCluster, assignment: RackAssignment) -> None:
        fields, seen_as = {"annotations": {RACK: assignment.rack}}, {"uid": assignment.pod.uid}
        await self._kube.patch_metadata(POD, cluster.namespace, assignment.pod.name, fields, seen_as)


def rack_pods(pods: Sequence[NodePod]) -> list[RackPod]:
    """Return the brokers' pods, without those that are being deleted."""
    return [
        RackPod(pod.name, pod.uid, pod.node, pod.annotations.get(RACK, ""), pod.failing)
        for pod in pods
        if pod.role is Role.BROKER and not pod.deleting
    ]


def placed_brokers(pods: Sequence[NodePod]) -> dict[int, str]:
    """Return the Kubernetes node of each broker that is scheduled and not being deleted."""
    return {pod.node_id: pod.node for pod in pods if pod.role is Role.BROKER and pod.node and not pod.deleting}


async def read_labels(kube: KubeClient, node: str) -> NodeLabels:
    """Read the labels of one Kubernetes node. Raises KubeError for an error that concerns all nodes."""
    read = await read_node(kube, node)
    if read.found is None:
        return NodeLabels(None, read.unseen, read.may_pass)
    return NodeLabels(read.found["metadata"].get("labels") or {})
