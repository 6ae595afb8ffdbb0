"""Read the StatefulSets of a cluster."""

from collections.abc import Mapping
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.kinds import STATEFUL_SET
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.resources.labels import node_set_name
from sluicegate_operator.resources.nodes.statefulset import is_node_set_of


async def read_node_set(
    kube: KubeClient, cluster: BrokerCluster, role: Role, *, fresh: bool = False
) -> Mapping[str, Any] | None:
    """Return the cluster's own StatefulSet, from the cache or with `fresh` from the API server. Raises KubeError."""
    ask = kube.get if fresh else kube.cache.get
    found = await ask(STATEFUL_SET, cluster.namespace, node_set_name(cluster.name, role))
    return found if found is not None and is_node_set_of(cluster, role, found) else None


async def find_node_set(kube: KubeClient, cluster: BrokerCluster, role: Role) -> Mapping[str, Any] | None:
    """Return the cluster's StatefulSet from the cache or, if it has lost its label, from the API server."""
    return await read_node_set(kube, cluster, role) or await read_node_set(kube, cluster, role, fresh=True)


async def broker_replicas(kube: KubeClient, cluster: BrokerCluster) -> int:
    """Return the number of brokers in the StatefulSet; 0 before it exists. Raises KubeError."""
    found = await find_node_set(kube, cluster, Role.BROKER)
    return 0 if found is None else int(found["spec"]["replicas"])
