"""Find the pods of a cluster: those that a label selects, and those that are known by name and were not selected.

Any user who may edit a pod may remove a label, and the pod still runs: its absence from a list proves nothing. So code
that acts on the absence of a node's pod must have read it by name.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.pods.pods import NodePod, node_pod
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.kinds import POD, STATEFUL_SET
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.registrations.overview import ClusterOverview
from sluicegate_operator.resources.labels import CLUSTER_LABEL, REVISION, node_set_name, selector
from sluicegate_operator.resources.nodes.statefulset import is_node_set_of
from sluicegate_operator.resources.owner import has_controller, is_controlled_by, other_controller

Json = Mapping[str, Any]

ABSENT_FOR_S = 60.0


async def listed_pods(kube: KubeClient, cluster: BrokerCluster, *, fresh: bool = False) -> list[NodePod]:
    """Return pods with the cluster's label and the name of a node, also those that are being deleted.

    They are read from the cache, or with `fresh` from the API server. A pod is left out for the reasons of
    `why_not_a_node`. Raises KubeError.
    """
    found: Sequence[Json]
    if fresh:
        found = await kube.list(POD, cluster.namespace, f"{CLUSTER_LABEL}={cluster.name}")
    else:
        found = await kube.cache.list(POD, cluster.namespace, cluster.name)
    named = [(node, pod) for pod in found if (node := _node(cluster, pod)) is not None and _has_own_name(cluster, node)]
    node_sets: dict[Role, Json | None] = {}
    nodes = []
    for node, pod in named:
        why = _why_not_by_itself(cluster, node.role, pod)
        if why is None:
            if node.role not in node_sets:
                node_sets[node.role] = await _node_set(kube, cluster, node.role)
            why = _why_not_of(cluster, node.role, pod, node_sets[node.role])
        if not why:
            nodes.append(node)
    return nodes


class AbsentPods:
    """The names of nodes whose pod was missing when it was last read by name.

    For ABSENT_FOR_S such a name is not read again, unless a pod with the cluster's label appears. An absence may be
    outdated: before the operator acts on it, the pod must be read again.
    """

    def __init__(self) -> None:
        self._since_s: dict[tuple[str, str], float] = {}

    def note(self, namespace: str, name: str, *, there: bool, now_s: float) -> None:
        if there:
            self._since_s.pop((namespace, name), None)
        else:
            self._since_s.setdefault((namespace, name), now_s)

    def is_absent(self, namespace: str, name: str, now_s: float) -> bool:
        since_s = self._since_s.get((namespace, name))
        if since_s is None or now_s - since_s < ABSENT_FOR_S:
            return since_s is not None
        del self._since_s[namespace, name]
        return False


async def all_pods(
    kube: KubeClient,
    cluster: BrokerCluster,
    overview: ClusterOverview | None,
    absent: AbsentPods | None = None,
    *,
    fresh: bool = False,
) -> list[NodePod]:
    """Return the cluster's pods including those that lack a label. Raises KubeError.

    With `fresh`, `overview` must have been read before: then a session in it belongs to a pod that is found, or its pod
    is gone.
    """
    listed = await listed_pods(kube, cluster, fresh=fresh)
    names, now_s = {node.name for node in listed}, asyncio.get_running_loop().time()
    absent = AbsentPods() if absent is None or fresh else absent
    for name in names:
        absent.note(cluster.namespace, name, there=True, now_s=now_s)
    missing = [
        (name, role)
        for name, role in _expected(cluster, overview)
        if name not in names and not absent.is_absent(cluster.namespace, name, now_s)
    ]
    found = await asyncio.gather(*(_by_name(kube, cluster, name, role) for name, role in missing))
    for (name, _), node in zip(missing, found, strict=True):
        absent.note(cluster.namespace, name, there=node is not None, now_s=now_s)
    return listed + [node for node in found if node is not None]


def _expected(cluster: BrokerCluster, overview: ClusterOverview | None) -> Iterator[tuple[str, Role]]:
    brokers = set(range(cluster.spec.broker_count))
    if overview is not None:
        brokers |= {broker.id for broker in overview.brokers if broker.has_session}
    yield from ((_name(cluster, Role.BROKER, ordinal), Role.BROKER) for ordinal in sorted(brokers))
    controllers = range(cluster.spec.controller_count)
    yield from ((_name(cluster, Role.CONTROLLER, ordinal), Role.CONTROLLER) for ordinal in controllers)


async def _by_name(kube: KubeClient, cluster: BrokerCluster, name: str, role: Role) -> NodePod | None:
    found = await kube.get(POD, cluster.namespace, name)
    if found is None or await why_not_a_node(kube, cluster, role, found):
        return None
    return _node(cluster, found, role)


async def why_not_a_node(kube: KubeClient, cluster: BrokerCluster, role: Role, pod: Json) -> str:
    """Return why a pod with the name of a node is not that node; empty if the pod is, or was, that node.

    Raises KubeError.

    A pod that has lost a label is released by its StatefulSet. It still has the annotation `revision`, which only pods
    of the cluster's StatefulSets get. A pod without this annotation must have the cluster's StatefulSet as its
    controller, by uid. Without a StatefulSet, the name is enough.
    """
    why = _why_not_by_itself(cluster, role, pod)
    return why if why is not None else _why_not_of(cluster, role, pod, await _node_set(kube, cluster, role))


def _why_not_by_itself(cluster: BrokerCluster, role: Role, pod: Json) -> str | None:
    """Return why a pod with the name of a node is not that node, decided from the pod alone.

    None if the StatefulSet is needed to decide.
    """
    if other := other_controller(pod, node_set_name(cluster.name, role)):
        return f"{other} controls it"
    if REVISION in (pod["metadata"].get("annotations") or {}):
        return ""
    return None if has_controller(pod) else "no StatefulSet of the cluster created it"


def _why_not_of(cluster: BrokerCluster, role: Role, pod: Json, node_set: Json | None) -> str:
    """Return why a pod with the name of a node is not that node.

    `node_set` is the present StatefulSet with the name of the cluster's own.
    """
    if node_set is None:
        return ""
    name = node_set["metadata"]["name"]
    if not is_node_set_of(cluster, role, node_set):
        return f"StatefulSet {name}, which does not belong to the operator, controls it"
    if not is_controlled_by(pod, node_set["metadata"]["uid"]):
        return f"a StatefulSet {name} that does not belong to the operator controls it"
    return ""


async def _node_set(kube: KubeClient, cluster: BrokerCluster, role: Role) -> Json | None:
    return await kube.get(STATEFUL_SET, cluster.namespace, node_set_name(cluster.name, role))


def _has_own_name(cluster: BrokerCluster, node: NodePod) -> bool:
    return node.name == _name(cluster, node.role, node.ordinal)


def _node(cluster: BrokerCluster, pod: Json, role: Role | None = None) -> NodePod | None:
    node = node_pod(pod, role)
    if node is None:
        return None
    has = pod["metadata"].get("labels") or {}
    wanted = selector(cluster.name, node.role)
    return replace(node, lost_labels={key: value for key, value in wanted.items() if has.get(key) != value})


def _name(cluster: BrokerCluster, role: Role, ordinal: int) -> str:
    return f"{node_set_name(cluster.name, role)}-{ordinal}"
