"""Give each broker the rack of its Kubernetes node, and report why a broker waits for its rack.

The module has its own queue: a broker does not start without its rack, and a slow controller must not delay that.
"""

import asyncio
import logging

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.changed_messages import ChangedMessages
from sluicegate_operator.engine.context.context import FleetContext
from sluicegate_operator.engine.context.progress import ClusterProgress
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.engine.lasting_refusals import LastingRefusals
from sluicegate_operator.engine.work_queue import REFUSED_RETRY, Again
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.planning.registrations.racks import RacksPlan, RackWait, refused_assignment

log = logging.getLogger(__name__)

WAITING_EVERY_S = 2.0
"""Seconds between reconciles while a pod waits for its rack.

Nodes are not watched, so a new label is found by polling.
"""
PASSES_WITHIN_S = 30.0
"""Seconds before a Warning about a waiting pod: usually a pod has no node until its volume is bound."""


class RackReconciler:
    """Gives waiting brokers the rack of their node."""

    def __init__(self, context: FleetContext) -> None:
        self._context = context
        self._waits: ChangedMessages[tuple[ClusterKey, str]] = ChangedMessages()
        self._refusals = LastingRefusals()

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        cluster = (await context.gather(key, ())).cluster
        if cluster is None:
            return None
        progress = context.progress.of(cluster)
        if cluster.spec.topology_key is None:
            self._note(key, progress, None)
            return None
        plan = await context.fleet.racks.plan(cluster, cluster.spec.topology_key)
        refused, retried = await self._annotate(cluster, plan)
        told = plan.with_refused(refused)
        self._note(key, progress, told)
        for wait in told.waiting:
            if wait.needs_a_person or self._lasts(key, wait):
                await context.post(cluster, "Warning", wait.reason, wait.message)
        if retried is not None:
            # Other brokers that wait for their racks are checked as often as without this refusal.
            others_wait = len(told.waiting) > len(refused)
            retried.again_within_s = WAITING_EVERY_S if others_wait else context.resync_s(cluster)
            raise retried
        if refused and not told.assign and len(told.waiting) == len(refused):
            return REFUSED_RETRY
        return WAITING_EVERY_S if told.assign or told.waiting else context.resync_s(cluster)

    async def _annotate(self, cluster: BrokerCluster, plan: RacksPlan) -> tuple[list[RackWait], KubeError | None]:
        """Annotate pods with their racks. Return the refusals for the status, and one that is too new for it.

        A pod that is gone, or that the API server protects, does not delay other pods. Raises KubeError if the API
        server does not answer.
        """
        context = self._context
        refused: list[RackWait] = []
        retried: KubeError | None = None
        for assignment in plan.assign:
            pod = assignment.pod
            try:
                await context.fleet.racks.assign(cluster, assignment)
            except KubeError as error:
                if error.status is None:
                    raise
                if error.status in (404, 409):
                    log.info("pod %s was deleted or has changed, its rack is not set: %s", pod.name, error)
                elif self._refusals.may_pass(pod.uid, error):
                    retried = error
                else:
                    refused.append(refused_assignment(assignment, str(error), may_pass=error.retriable))
            else:
                self._refusals.ended(pod.uid)
                await context.post(cluster, "Normal", "RackKnown", assignment.sentence)
        return refused, retried

    def _lasts(self, key: ClusterKey, wait: RackWait) -> bool:
        """Return whether the wait has lasted, compared by its reason: the scheduler's message changes meanwhile."""
        lasted_s = self._waits.note((key, wait.pod_uid), wait.reason, asyncio.get_running_loop().time())
        return lasted_s is not None and lasted_s >= PASSES_WITHIN_S

    def _note(self, key: ClusterKey, progress: ClusterProgress, plan: RacksPlan | None) -> None:
        if progress.racks != plan:
            progress.racks = plan
            self._context.mark(Queue.CLUSTERS, key)
