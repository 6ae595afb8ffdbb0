"""Reads the tags, versions and damaged logs of brokers, which other queues write to statuses.

This is a separate queue: a broker may be slow to answer, and fencing and readiness gates must not wait for one.
"""

import logging
from collections.abc import Mapping, Sequence

from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.context.context import recheck_s
from sluicegate_operator.engine.context.progress import ClusterProgress
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.engine.work_queue import Again, Retry
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.descriptions import ask_descriptions
from sluicegate_operator.fleet.kafka.log_damage import ask_log_damage
from sluicegate_operator.fleet.node_security import NoNodeSecurityError
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.snapshot import gather_cluster
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kafka_admin.log_damage import SINCE_PROTOCOL
from sluicegate_operator.kafka_admin.security.client_security import ClientSecurity
from sluicegate_operator.planning.registrations.registrations import BrokerWords

log = logging.getLogger(__name__)

UNDESCRIBED_RETRY = Retry(1.0, 30.0)


class DescriptionReconciler:
    """Reads tags, protocol versions and releases of brokers. Raises KubeError, after which the queue retries."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        cluster = await gather_cluster(context.kube, key)
        if cluster is None or cluster.spec.brokers is None:
            return None
        progress = context.progress.of(cluster)
        brokers = await context.fleet.broker_addresses(cluster)
        if not brokers:
            return UNDESCRIBED_RETRY
        try:
            security = await context.node_security.of(cluster)
            described = await ask_descriptions(brokers, security)
        except (KafkaAdminError, NoNodeSecurityError) as error:
            if context.is_news(str(error), "descriptions", cluster.metadata.uid):
                log.info("cluster %s: brokers did not describe themselves: %s", cluster.name, error)
            return UNDESCRIBED_RETRY
        if progress.described != described:
            before, progress.described = progress.described, described
            context.mark(Queue.REGISTRATIONS, key)
            if _versions(before) != _versions(described):
                context.mark(Queue.CLUSTERS, key)
        if await _damage_changed(progress, brokers, described, security):
            context.mark(Queue.CLUSTERS, key)
        damaged = any(one.is_damaged for one in (progress.damage or {}).values())
        # Brokers repair damage, or a user accepts it, within seconds.
        return context.resync_s(cluster) if damaged else recheck_s(context, cluster)


async def _damage_changed(
    progress: ClusterProgress,
    brokers: Sequence[BrokerAddress],
    described: Mapping[int, BrokerWords],
    security: ClientSecurity,
) -> bool:
    """Ask the brokers for damage and note it. Returns whether it changed.

    The last answer of a broker stays while the cluster has that broker.
    """
    newest = {broker_id: words.protocol_version_max or 0 for broker_id, words in described.items()}
    asked = [one for one in brokers if one.up and newest.get(one.broker_id, 0) >= SINCE_PROTOCOL]
    answered = await ask_log_damage(asked, security)
    before = progress.damage or {}
    after = {one.broker_id: before[one.broker_id] for one in brokers if one.broker_id in before} | answered
    progress.damage = after or None
    return after != before


def _versions(described: Mapping[int, BrokerWords]) -> set[str | None]:
    return {words.version for words in described.values()}
