"""Tells each broker the rack of the Kubernetes node that it runs on, and reports what keeps a broker waiting for it.

A queue of its own: a broker that has no rack yet does not start, and a slow controller must not delay that.
"""

import asyncio

from sluicegate_operator.engine.context import FleetContext
from sluicegate_operator.engine.progress import ClusterProgress
from sluicegate_operator.engine.said import Said
from sluicegate_operator.engine.snapshot import ClusterKey
from sluicegate_operator.engine.telling import pass_over
from sluicegate_operator.kube.errors import KubeError
from sluicegate_operator.planning.racks import RacksPlan, RackWait

WAITING_EVERY_S = 2.0
"""Nodes are not watched: a label that a person adds is found by looking again."""
PASSES_WITHIN_S = 30.0
"""A pod of an ordinary install is on no node until its volume is bound: a Warning is for what lasts."""


class RackReconciler:
    """Tells brokers that wait for it the rack of their node."""

    def __init__(self, context: FleetContext) -> None:
        self._context = context
        self._waits: Said[tuple[ClusterKey, str]] = Said()

    async def reconcile(self, key: ClusterKey) -> float | None:
        context = self._context
        cluster = (await context.gather(key, ())).cluster
        if cluster is None:
            return None
        progress = context.progress.of(cluster)
        if cluster.spec.topology_key is None:
            self._note(key, progress, None)
            return None
        plan = await context.fleet.racks.plan(cluster, cluster.spec.topology_key)
        self._note(key, progress, plan)
        for telling in plan.tell:
            try:
                await context.fleet.racks.tell(cluster, telling)
            except KubeError as error:
                pass_over(context, telling.pod.name, telling.pod.uid, error, "it is not told its rack")
            else:
                await context.post(cluster, "Normal", "RackKnown", telling.sentence)
        for wait in plan.waiting:
            if wait.needs_a_person or self._lasts(key, wait):
                await context.post(cluster, "Warning", wait.reason, wait.message)
        return WAITING_EVERY_S if plan.tell or plan.waiting else context.resync_s(cluster)

    def _lasts(self, key: ClusterKey, wait: RackWait) -> bool:
        """By its reason: the scheduler's sentence changes while nothing else does."""
        lasted_s = self._waits.note((key, wait.pod_uid), wait.reason, asyncio.get_running_loop().time())
        return lasted_s is not None and lasted_s >= PASSES_WITHIN_S

    def _note(self, key: ClusterKey, progress: ClusterProgress, plan: RacksPlan | None) -> None:
        if progress.racks != plan:
            progress.racks = plan
            self._context.mark("clusters", key)
