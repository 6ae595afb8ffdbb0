"""What planning.racks goes by, read from pods and from the nodes that they are on."""

from collections.abc import Sequence

from sluicegate_operator.fleet.pods import NodePod
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.errors import KubeError
from sluicegate_operator.kube.kinds import NODE
from sluicegate_operator.planning.cluster_layout import Role
from sluicegate_operator.planning.racks import NodeLabels, RackPod
from sluicegate_operator.resources.labels import RACK

FORBIDDEN = "the operator may not get nodes; deploy/README.md says how to let it"


def rack_pods(pods: Sequence[NodePod]) -> list[RackPod]:
    """Of brokers; one that is going is told nothing any more."""
    return [
        RackPod(pod.name, pod.uid, pod.node, pod.annotations.get(RACK, ""), pod.failing)
        for pod in pods
        if pod.role is Role.BROKER and not pod.deleting
    ]


async def read_labels(kube: KubeClient, node: str) -> NodeLabels:
    """Raises KubeError for what may pass."""
    try:
        found = await kube.get(NODE, None, node)
    except KubeError as error:
        if error.retriable:
            raise
        return NodeLabels(None, FORBIDDEN if error.status == 403 else str(error))
    if found is None:
        return NodeLabels(None, "there is no such node any more")
    return NodeLabels(found["metadata"].get("labels") or {})
