"""Reconcile a BrokerCluster with runtime External: only its status, because no node is started, rolled or fenced.

Limits, topics and dynamic configuration have the same queues as for bundled brokers.
"""

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.context.context import REMEMBERED_FIELDS, ExternalContext, now
from sluicegate_operator.engine.telling import report_stalled
from sluicegate_operator.engine.work_queue import Again, Retry
from sluicegate_operator.planning.external.external_status import ConfigProgress, external_status

UNREACHABLE_RETRY = Retry(1.0, 15.0)
FOLLOWERS = (Queue.QUOTAS, Queue.TOPICS, Queue.CONFIGS, Queue.USERS)
"""The queues that wait until brokers are known."""


class ExternalClusters:
    """Writes the observed state of an external cluster into the status of its BrokerCluster."""

    def __init__(self, context: ExternalContext) -> None:
        self._context = context

    async def reconcile(self, cluster: BrokerCluster) -> Again:
        context, key = self._context, (cluster.namespace, cluster.name)
        progress = context.progress.of(cluster)
        seen = await context.external.observe(cluster)
        config = ConfigProgress(progress.config_lagging, progress.config_refused, progress.config_generation)
        status = external_status(cluster, seen, config, now())
        await context.write_status(cluster, status, without=REMEMBERED_FIELDS)
        await report_stalled(context, cluster, status)
        if status.cluster_id != cluster.status.cluster_id:
            # Nothing is set before the status contains the id of the cluster.
            for queue in (*FOLLOWERS, Queue.REGISTRATIONS):
                context.mark(queue, key)
        ready = status.condition("Ready")
        if ready is not None and ready.status == "True":
            return context.resync_s(cluster)
        return UNREACHABLE_RETRY
