"""Read the revisions that the nodes of a cluster in Kubernetes were started with, to preview restarts."""

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.pods.finding_pods import listed_pods
from sluicegate_operator.fleet.pods.node_sets import read_node_set
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.layout.preview_nodes import RunningNodes
from sluicegate_operator.planning.layout.restart_reasons import decode_revision, restart_requested
from sluicegate_operator.resources.labels import RESTARTED_AT, REVISION


async def running_nodes(kube: KubeClient, cluster: BrokerCluster) -> RunningNodes | None:
    """Return the running nodes; None before the cluster has its own StatefulSets. Raises KubeError."""
    replicas, wanted, requested_at = {}, {}, {}
    for role in Role:
        found = await read_node_set(kube, cluster, role, fresh=True)
        if found is None:
            return None
        annotations = found["spec"]["template"]["metadata"].get("annotations") or {}
        replicas[role] = int(found["spec"]["replicas"])
        wanted[role] = annotations.get(REVISION, "")
        requested_at[role] = annotations.get(RESTARTED_AT, "")
    pods = await listed_pods(kube, cluster, fresh=True)
    return RunningNodes(
        replicas,
        wanted,
        {pod.name: decode_revision(pod.annotations.get(REVISION)) for pod in pods},
        {pod.name: restart_requested(pod.annotations.get(RESTARTED_AT), requested_at[pod.role]) for pod in pods},
    )
