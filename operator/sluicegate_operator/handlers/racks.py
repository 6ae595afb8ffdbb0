"""Brokers' pods are told the rack of their node, as soon as they are on one; what keeps them waiting is said.

A queue of its own: a broker that has no rack yet does not start, and a controller that is slow to answer is no reason.
"""

import asyncio

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.engine.progress import ClusterProgress
from sluicegate_operator.engine.said import Said
from sluicegate_operator.engine.snapshot import ClusterKey
from sluicegate_operator.fleet.racks import rack_pods, read_labels
from sluicegate_operator.handlers.context import Context, pass_over
from sluicegate_operator.handlers.snapshot import gather_cluster
from sluicegate_operator.kube.errors import KubeError
from sluicegate_operator.kube.kinds import POD
from sluicegate_operator.planning.racks import RacksPlan, RackWait, Telling, nodes_to_read, plan_racks
from sluicegate_operator.resources.labels import RACK

WAITING_EVERY_S = 2.0
"""Nodes are not watched: a label that a person adds is found by looking again."""
PASSES_WITHIN_S = 30.0
"""A pod of an ordinary install is on no node until its volume is bound: a Warning is for what lasts."""


class RackReconciler:
    """Tells brokers that wait for it the rack of their node."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._waits: Said[tuple[ClusterKey, str]] = Said()

    async def reconcile(self, key: ClusterKey) -> float | None:
        cluster = await gather_cluster(self._context.kube, key)
        if cluster is None:
            return None
        progress = self._context.progress.of(cluster)
        if cluster.spec.topology_key is None:
            self._note(key, progress, None)
            return None
        plan = await self._plan(cluster, cluster.spec.topology_key)
        self._note(key, progress, plan)
        for telling in plan.tell:
            await self._tell(cluster, telling)
        for wait in plan.waiting:
            if wait.needs_a_person or self._lasts(key, wait):
                await self._context.post(cluster, "Warning", wait.reason, wait.message)
        return WAITING_EVERY_S if plan.tell or plan.waiting else self._context.resync_s(cluster)

    def _lasts(self, key: ClusterKey, wait: RackWait) -> bool:
        """By its reason: the scheduler's sentence changes while nothing else does."""
        lasted_s = self._waits.note((key, wait.pod_uid), wait.reason, asyncio.get_running_loop().time())
        return lasted_s is not None and lasted_s >= PASSES_WITHIN_S

    async def _plan(self, cluster: BrokerCluster, topology_key: str) -> RacksPlan:
        pods = rack_pods(await self._context.fleet.pods(cluster))
        names = nodes_to_read(pods)
        labels = await asyncio.gather(*(read_labels(self._context.kube, name) for name in names))
        return plan_racks(topology_key, pods, dict(zip(names, labels, strict=True)))

    def _note(self, key: ClusterKey, progress: ClusterProgress, plan: RacksPlan | None) -> None:
        if progress.racks != plan:
            progress.racks = plan
            self._context.mark("clusters", key)

    async def _tell(self, cluster: BrokerCluster, telling: Telling) -> None:
        pod = telling.pod
        try:
            fields = {"annotations": {RACK: telling.rack}}
            await self._context.kube.patch_metadata(POD, cluster.namespace, pod.name, fields, {"uid": pod.uid})
        except KubeError as error:
            pass_over(self._context, pod, error, "it is not told its rack")
            return
        await self._context.post(cluster, "Normal", "RackKnown", telling.sentence)
