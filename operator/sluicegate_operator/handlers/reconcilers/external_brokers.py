"""BrokerRegistrations of BrokerClusters with runtime External. Their status is in engine.external_clusters."""

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.engine.external_clusters import FOLLOWERS, UNREACHABLE_RETRY
from sluicegate_operator.engine.work_queue import Again
from sluicegate_operator.fleet.pods.by_cluster import ByCluster
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.planning.external.external_status import (
    ExternalSeen,
    ReplicaCounts,
    governed_id,
    why_another,
)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Known:
    """The known brokers of one BrokerCluster."""

    seen: ExternalSeen = field(default_factory=ExternalSeen)
    counted_s: float = float("-inf")
    counts: Mapping[int, ReplicaCounts] = field(default_factory=dict)
    """Replicas of all brokers. The answer is long, so the brokers are asked only at each resync."""


class ExternalBrokers:
    """Observes the brokers of external clusters, and marks the queues that depend on them when they change."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known = ByCluster(_Known)

    async def observe(self, cluster: BrokerCluster) -> ExternalSeen | None:
        """Read the state of an external cluster's brokers; None while it is unknown or not this BrokerCluster's.

        It is not this BrokerCluster's if the addresses lead to another cluster, or if another BrokerCluster governs it.
        """
        key, known = (cluster.namespace, cluster.name), self._known.of(cluster)
        seen = await self._context.external.observe(cluster)
        before, known.seen = known.seen, seen
        self._mark_queues(key, before, seen)
        if seen.unseen or seen.governed or not governed_id(cluster) or why_another(cluster, seen.cluster_id):
            return None
        return seen

    def why_unknown(self, cluster: BrokerCluster) -> str:
        """Return why the last `observe` did not return the state of the brokers."""
        seen = self._known.of(cluster).seen
        another = why_another(cluster, seen.cluster_id) if seen.cluster_id else ""
        return seen.unseen or seen.governed or another or "the cluster.id of the cluster is not known yet"

    def _mark_queues(self, key: ClusterKey, before: ExternalSeen, seen: ExternalSeen) -> None:
        if (before.cluster_id, before.brokers, before.unseen) != (seen.cluster_id, seen.brokers, seen.unseen):
            self._context.mark(Queue.CLUSTERS, key)
        if before.brokers != seen.brokers:
            for queue in FOLLOWERS:
                self._context.mark(queue, key)

    async def counts(self, cluster: BrokerCluster) -> Mapping[int, ReplicaCounts]:
        known, now_s = self._known.of(cluster), asyncio.get_running_loop().time()
        if now_s - known.counted_s >= cluster.spec.resync_seconds:
            try:
                known.counts = await self._context.external.count_replicas(cluster)
            except KafkaAdminError as error:
                if self._context.is_news(str(error), "counting", cluster.metadata.uid):
                    log.warning("cluster %s: the replicas cannot be counted: %s", cluster.name, error)
            known.counted_s = now_s
        return known.counts

    def again(self, seen: ExternalSeen | None) -> Again:
        if seen is None:
            return UNREACHABLE_RETRY
        return self._context.settings.view_every_s * random.uniform(0.8, 1.2)

    def forget(self, key: ClusterKey) -> None:
        self._known.forget(key)
