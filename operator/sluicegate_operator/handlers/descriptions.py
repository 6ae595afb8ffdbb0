"""What brokers say of themselves, for the registrations' queue to write down.

A queue of its own: a broker may be slow to answer, and what fences brokers and opens them to clients waits for none.
"""

import logging
from collections.abc import Mapping

from sluicegate_operator.engine.snapshot import ClusterKey
from sluicegate_operator.engine.work_queue import Again, Retry
from sluicegate_operator.fleet.descriptions import ask_descriptions
from sluicegate_operator.handlers.context import Context, look_again_s
from sluicegate_operator.handlers.snapshot import gather_cluster
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.planning.registrations import BrokerWords

log = logging.getLogger(__name__)

UNTOLD_RETRY = Retry(1.0, 30.0)


class DescriptionReconciler:
    """Asks for tags, protocol versions and releases. Raises KubeError, which is tried again."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        cluster = await gather_cluster(context.kube, key)
        if cluster is None or cluster.spec.brokers is None:
            return None
        brokers = await context.fleet.broker_addresses(cluster)
        if not brokers:
            return UNTOLD_RETRY
        try:
            told = await ask_descriptions(brokers)
        except KafkaAdminError as error:
            if context.is_news(str(error), "descriptions", cluster.metadata.uid):
                log.info("cluster %s: brokers do not say what they are: %s", cluster.name, error)
            return UNTOLD_RETRY
        progress = context.progress[key]
        if progress.told != told:
            before, progress.told = progress.told, told
            context.mark("registrations", key)
            if _versions(before) != _versions(told):
                context.mark("clusters", key)
        return look_again_s(context, cluster)


def _versions(told: Mapping[int, BrokerWords]) -> set[str | None]:
    return {words.version for words in told.values()}
