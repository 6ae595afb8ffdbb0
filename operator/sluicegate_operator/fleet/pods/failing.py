"""Find the nodes of a cluster that do not start, from their pods, and from Events about pods without node or volume.

Events are not in the cache, because there are many of them and few are needed. They are read at once when other nodes
lack a pod or a volume, and less and less often while it is the same ones. So a cluster that cannot start costs few
requests.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.pods.finding_pods import why_not_a_node
from sluicegate_operator.fleet.pods.pods import NodePod
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.client.one_by_one import concerns_all
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import EVENT, PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET
from sluicegate_operator.planning.layout.children import node_set, wanted_revision
from sluicegate_operator.planning.layout.cluster_layout import FIRST_CONTROLLER_ID, ClusterLayout, Role
from sluicegate_operator.planning.layout.restart_reasons import NodeRevision, decode_revision, restart_reasons
from sluicegate_operator.planning.rolls.pod_failures import (
    OOM_KILLED,
    UNSCHEDULABLE,
    events_of,
    why_missing,
    why_unbound,
)
from sluicegate_operator.planning.rolls.start_failures import FailingNode, StartFailure
from sluicegate_operator.planning.status.conditions import NAME_TAKEN
from sluicegate_operator.resources.container_resources import memory_limit
from sluicegate_operator.resources.labels import REVISION, node_set_name
from sluicegate_operator.resources.nodes.statefulset import CLAIM, is_node_set_of
from sluicegate_operator.resources.owner import why_stays

log = logging.getLogger(__name__)

Json = Mapping[str, Any]

FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0
BEING_DELETED = "BeingDeleted"
"""Reason why a node has no pod: Kubernetes creates none for a StatefulSet that is being deleted."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The last answer about `nodes`, and when to ask again."""

    nodes: tuple[str, ...]
    generation: int
    found: list[FailingNode]
    pause_s: float
    again_s: float


class SetEvents:
    """The API server's answers about nodes without a pod and pods without a volume.

    A forgotten answer is requested again.
    """

    def __init__(self) -> None:
        self._asked: dict[tuple[str, Role, str], _Asked] = {}
        """Answers by uid of the cluster, role and question; only for clusters that have lacked something lately."""

    async def refused(
        self, kube: KubeClient, cluster: BrokerCluster, role: Role, missing: Sequence[str]
    ) -> list[FailingNode]:
        """Return why these nodes have no pod."""
        return await self._paced(cluster, role, "pods", missing, lambda: _without_pod(kube, cluster, role, missing))

    async def unbound(
        self, kube: KubeClient, cluster: BrokerCluster, role: Role, waiting: Sequence[NodePod]
    ) -> list[FailingNode]:
        """Return why these pods, which are not scheduled, have no volume; pods with a volume are left out."""
        names = [pod.name for pod in waiting]
        return await self._paced(cluster, role, "volumes", names, lambda: _without_volume(kube, cluster, waiting))

    async def _paced(
        self,
        cluster: BrokerCluster,
        role: Role,
        question: str,
        nodes: Sequence[str],
        ask: Callable[[], Awaitable[list[FailingNode]]],
    ) -> list[FailingNode]:
        key, now_s = (cluster.metadata.uid, role, question), asyncio.get_running_loop().time()
        before = self._asked.pop(key, None)
        # This also removes the answers of deleted clusters.
        self._asked = {of: one for of, one in self._asked.items() if now_s < one.again_s + LONGEST_PAUSE_S}
        if not nodes:
            return []
        attempt = tuple(nodes), cluster.metadata.generation
        same = before is not None and (before.nodes, before.generation) == attempt
        if before is not None and same and now_s < before.again_s:
            self._asked[key] = before
            return before.found
        pause_s = min(2 * before.pause_s, LONGEST_PAUSE_S) if before is not None and same else FIRST_PAUSE_S
        try:
            found = await ask()
        except KubeError as error:
            if concerns_all(error):
                raise
            # The status reports the rest: which node is missing.
            log.info(
                "cluster %s: the pods cannot be read, so it is unknown why nodes do not start: %s", cluster.name, error
            )
            found = before.found if before is not None and same and error.retriable else []
        self._asked[key] = _Asked(*attempt, found, pause_s, now_s + pause_s)
        return found


@dataclass(frozen=True, slots=True)
class FailingNodes:
    """The failing nodes of a cluster.

    `unwell`: uids of all pods that are not ready, and names of nodes without a pod.
    """

    failing: tuple[FailingNode, ...]
    unwell: frozenset[str]


async def failing_nodes(
    kube: KubeClient, events: SetEvents, cluster: BrokerCluster, layout: ClusterLayout, pods: Sequence[NodePod]
) -> FailingNodes:
    """Return the nodes that do not start.

    `cluster` names its images, see planning.layout.images. A pod that still has to be restarted is left out: its state
    says nothing about the wanted configuration.
    """
    failing: list[FailingNode] = []
    unwell: set[str] = set()
    # Brokers wait for controllers.
    for role in (Role.CONTROLLER, Role.BROKER):
        wanted = wanted_revision(cluster, layout, role)
        of_role = sorted((pod for pod in pods if pod.role is role), key=lambda pod: pod.ordinal)
        unwell |= {pod.uid for pod in of_role if not pod.ready}
        current = [pod for pod in of_role if pod.failure is not None and _runs(pod, wanted)]
        unscheduled = [pod for pod in current if pod.failure is not None and _waits_for_volume(pod.failure)]
        of_volumes = {node.uid: node for node in await events.unbound(kube, cluster, role, unscheduled)}
        failing += [of_volumes.get(pod.uid) or _failing(cluster, layout, pod) for pod in current]
        missing = _missing(layout, role, of_role)
        unwell |= set(missing)
        failing += await events.refused(kube, cluster, role, missing)
    return FailingNodes(tuple(failing), frozenset(unwell))


def _waits_for_volume(failure: StartFailure) -> bool:
    """Return whether a claim is not bound; the scheduler reports no more than that."""
    return failure.reason == UNSCHEDULABLE and "persistentvolumeclaim" in failure.message.lower()


def _runs(pod: NodePod, wanted: NodeRevision) -> bool:
    return not restart_reasons(decode_revision(pod.annotations.get(REVISION)), wanted)


def _failing(cluster: BrokerCluster, layout: ClusterLayout, pod: NodePod) -> FailingNode:
    failure = pod.failure
    assert failure is not None, "asked of pods that fail"
    if failure.reason == OOM_KILLED:
        message = f"{failure.message}; {_raise_limit(cluster, layout, pod.role, failure.container)}"
        failure = replace(failure, message=message)
    return FailingNode(pod.name, pod.uid, failure)


def _raise_limit(cluster: BrokerCluster, layout: ClusterLayout, role: Role, container: str) -> str:
    """Return the advice to raise a memory limit.

    `container` is the node's own container of that role, or the lander beside it.
    """
    landing = cluster.spec.landing
    if landing is not None and container != role.value:
        where, limit = "spec.audit.landing", memory_limit(landing.resources, "lander")
    else:
        where, limit = f"spec.{role}s", memory_limit(node_set(cluster, layout, role).resources, role.value)
    has = f", which is {limit}" if limit else ""
    return f"raise {where}.resources.limits.memory{has}"


def _missing(layout: ClusterLayout, role: Role, pods: Sequence[NodePod]) -> list[str]:
    first = 0 if role is Role.BROKER else FIRST_CONTROLLER_ID
    there = {pod.ordinal for pod in pods}
    ordinals = [node_id - first for node_id in layout.node_ids(role)]
    return [f"{node_set_name(layout.name, role)}-{ordinal}" for ordinal in ordinals if ordinal not in there]


async def _without_pod(
    kube: KubeClient, cluster: BrokerCluster, role: Role, missing: Sequence[str]
) -> list[FailingNode]:
    """Return why these nodes have no pod.

    Another pod has the name, the StatefulSet is being deleted, or its Events have the cause.
    """
    name = node_set_name(cluster.name, role)
    node_set = await kube.cache.get(STATEFUL_SET, cluster.namespace, name)
    events, stays = list[Json](), ""
    if node_set is not None and is_node_set_of(cluster, role, node_set):
        events = await _events(kube, cluster, STATEFUL_SET.kind, name, node_set["metadata"]["uid"])
        stays = why_stays(node_set)
    pods = await asyncio.gather(*(kube.get(POD, cluster.namespace, pod) for pod in missing))
    found = []
    for pod, there in zip(missing, pods, strict=True):
        failure = why_missing(pod, events)
        if stays:
            sentence = f"StatefulSet {name} {stays}; the operator creates it again when it is gone"
            failure = StartFailure(BEING_DELETED, sentence)
        if there is not None and (why := await why_not_a_node(kube, cluster, role, there)):
            failure = StartFailure(NAME_TAKEN, _pod_taken(there, why))
        if failure is not None:
            found.append(FailingNode(pod, pod, failure))
    return found


def _pod_taken(pod: Json, why: str) -> str:
    sentence = f"a Pod {pod['metadata']['name']} that does not belong to the operator exists ({why})"
    other_name = "create the BrokerCluster with another name"
    if stays := why_stays(pod):
        return f"{sentence}; it {stays}: wait until it is gone, or {other_name}"
    return f"{sentence}, and the operator does not change it: delete the Pod, or {other_name}"


async def _without_volume(kube: KubeClient, cluster: BrokerCluster, waiting: Sequence[NodePod]) -> list[FailingNode]:
    found = await kube.cache.list(PERSISTENT_VOLUME_CLAIM, cluster.namespace, cluster.name)
    claims = {claim["metadata"]["name"]: claim for claim in found}
    failing = []
    for pod in waiting:
        claim = claims.get(f"{CLAIM}-{pod.name}")
        if claim is None or (claim.get("status") or {}).get("phase") == "Bound":
            continue
        meta = claim["metadata"]
        events = await _events(kube, cluster, PERSISTENT_VOLUME_CLAIM.kind, meta["name"], meta["uid"])
        failure = why_unbound(claim, events)
        if failure is not None:
            failing.append(FailingNode(pod.name, pod.uid, failure))
    return failing


async def _events(kube: KubeClient, cluster: BrokerCluster, kind: str, name: str, uid: str) -> list[Json]:
    of = f"involvedObject.kind={kind},involvedObject.name={name}"
    return events_of(uid, await kube.list(EVENT, cluster.namespace, field_selector=of))
