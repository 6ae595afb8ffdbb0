"""Which nodes of a cluster do not start: their pods say so, and of those that have none their StatefulSet's Events.

Events are not in the cache, for there are many of them and few are of use. They are asked for at once when other nodes
have no pod, and less and less often while it is the same ones: a cluster that cannot start costs few requests.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.pods import NodePod, why_missing
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.kinds import EVENT
from sluicegate_operator.planning.children import wanted_revision
from sluicegate_operator.planning.cluster_layout import FIRST_CONTROLLER_ID, ClusterLayout, Role
from sluicegate_operator.planning.start_failures import FailingNode
from sluicegate_operator.resources.labels import REVISION, node_set_name

FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was said of `missing`, and when it is asked for again."""

    missing: tuple[str, ...]
    generation: int
    found: list[FailingNode]
    pause_s: float
    again_s: float


class SetEvents:
    """What Events of StatefulSets have told of nodes without a pod. Without what it remembers they are asked for once
    more."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, Role], _Asked] = {}
        """By uid of the cluster and role; only of those that have missed a pod lately."""

    async def refused(
        self, kube: KubeClient, cluster: BrokerCluster, role: Role, missing: Sequence[str]
    ) -> list[FailingNode]:
        key, now_s = (cluster.metadata.uid, role), asyncio.get_running_loop().time()
        before = self._asked.pop(key, None)
        # Also those of clusters that have gone.
        self._asked = {of: one for of, one in self._asked.items() if now_s < one.again_s + LONGEST_PAUSE_S}
        if not missing:
            return []
        attempt = tuple(missing), cluster.metadata.generation
        same = before is not None and (before.missing, before.generation) == attempt
        if before is not None and same and now_s < before.again_s:
            self._asked[key] = before
            return before.found
        pause_s = min(2 * before.pause_s, LONGEST_PAUSE_S) if before is not None and same else FIRST_PAUSE_S
        found = await _told(kube, cluster, role, missing)
        self._asked[key] = _Asked(*attempt, found, pause_s, now_s + pause_s)
        return found


@dataclass(frozen=True, slots=True)
class NodesSeen:
    """`unwell`: uids of all pods that are not ready, and names of nodes that have none."""

    failing: tuple[FailingNode, ...]
    unwell: frozenset[str]


async def failing_nodes(
    kube: KubeClient, events: SetEvents, cluster: BrokerCluster, layout: ClusterLayout, pods: Sequence[NodePod]
) -> NodesSeen:
    """A pod that is still to be restarted is left out: how it does says nothing of what is wanted now. `cluster` names
    its images, see planning.images."""
    failing: list[FailingNode] = []
    unwell: set[str] = set()
    # Brokers wait for controllers.
    for role in (Role.CONTROLLER, Role.BROKER):
        wanted = wanted_revision(cluster, layout, role).encode()
        of_role = [pod for pod in pods if pod.role is role]
        unwell |= {pod.uid for pod in of_role if not pod.ready}
        failing += [
            FailingNode(pod.name, pod.uid, pod.failure)
            for pod in sorted(of_role, key=lambda pod: pod.ordinal)
            if pod.failure is not None and pod.annotations.get(REVISION) == wanted
        ]
        missing = _missing(layout, role, of_role)
        unwell |= set(missing)
        failing += await events.refused(kube, cluster, role, missing)
    return NodesSeen(tuple(failing), frozenset(unwell))


def _missing(layout: ClusterLayout, role: Role, pods: Sequence[NodePod]) -> list[str]:
    first = 0 if role is Role.BROKER else FIRST_CONTROLLER_ID
    there = {pod.ordinal for pod in pods}
    ordinals = [node_id - first for node_id in layout.node_ids(role)]
    return [f"{node_set_name(layout.name, role)}-{ordinal}" for ordinal in ordinals if ordinal not in there]


async def _told(kube: KubeClient, cluster: BrokerCluster, role: Role, missing: Sequence[str]) -> list[FailingNode]:
    of = f"involvedObject.kind=StatefulSet,involvedObject.name={node_set_name(cluster.name, role)}"
    events = await kube.list(EVENT, cluster.namespace, field_selector=of)
    found = ((name, why_missing(name, events)) for name in missing)
    return [FailingNode(name, name, failure) for name, failure in found if failure is not None]
