"""What planning.racks goes by, read from pods and from the nodes that they are on."""

from collections.abc import Sequence

from sluicegate_operator.fleet.nodes import read_node
from sluicegate_operator.fleet.pods import NodePod
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.planning.cluster_layout import Role
from sluicegate_operator.planning.racks import NodeLabels, RackPod
from sluicegate_operator.resources.labels import RACK


def rack_pods(pods: Sequence[NodePod]) -> list[RackPod]:
    """Of brokers; one that is going is told nothing any more."""
    return [
        RackPod(pod.name, pod.uid, pod.node, pod.annotations.get(RACK, ""), pod.failing)
        for pod in pods
        if pod.role is Role.BROKER and not pod.deleting
    ]


def placed_brokers(pods: Sequence[NodePod]) -> dict[int, str]:
    """The Kubernetes node of each broker that is on one and is not going."""
    return {pod.node_id: pod.node for pod in pods if pod.role is Role.BROKER and pod.node and not pod.deleting}


async def read_labels(kube: KubeClient, node: str) -> NodeLabels:
    """Raises KubeError for what may pass."""
    read = await read_node(kube, node)
    return (
        NodeLabels(None, read.unseen) if read.found is None else NodeLabels(read.found["metadata"].get("labels") or {})
    )
