"""Reconcile dynamic configuration of spec.config and tags: set it on running brokers, read it back, fix drift.

The keys are written into the cluster's status before they are set, see planning.layout.broker_config.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from sluicegate_operator.api.models.broker_cluster import BrokerCluster, Brokers
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.context.context import ReconcileContext
from sluicegate_operator.engine.context.progress import ClusterProgress
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.engine.work_queue import Again, Retry
from sluicegate_operator.fleet.external.external_config import why_not_dynamic
from sluicegate_operator.fleet.kafka.asking import BrokerPool, NoBrokerError
from sluicegate_operator.fleet.kafka.dynamic_config import ConfigResult, WantedConfig, enforce_config
from sluicegate_operator.kafka_admin.errors import KafkaAdminError, is_refusal
from sluicegate_operator.planning.layout.broker_config import NO_OWN_TAGS, OwnTags
from sluicegate_operator.planning.layout.cluster_layout import dynamic_config

LAGGING_RETRY = Retry(1.0, 10.0)

OwnTagsOf = Callable[[BrokerCluster, Brokers, frozenset[int]], Awaitable[tuple[OwnTags, dict[int, str]]]]
"""Function that returns the tags that differ between brokers, and why tags are unknown, by broker id.

Its last argument is the ids of the brokers to include.
"""


@dataclass(frozen=True, slots=True)
class _InForce:
    uid: str
    """Uid of the BrokerCluster."""
    desired: Mapping[str, str]
    own: OwnTags
    brokers: frozenset[tuple[int, str]]
    """Id and host of each broker: a broker that has just joined had no configuration before."""


class ConfigReconciler:
    """Keeps the brokers' dynamic configuration equal to that of the BrokerCluster.

    Raises KubeError, after which the queue retries.
    """

    def __init__(self, context: ReconcileContext, own_tags: OwnTagsOf) -> None:
        self._context = context
        self._own_tags = own_tags
        self._in_force: dict[ClusterKey, _InForce] = {}
        """The configuration last seen on all brokers.

        A later difference on the same brokers, while the same configuration is wanted, is drift.
        """

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        cluster = (await context.gather(key, ())).cluster
        if cluster is None:
            self._in_force.pop(key, None)
            return None
        progress = context.progress.of(cluster)
        desired, managed = dynamic_config(cluster), cluster.status.dynamic_config_keys
        brokers = cluster.spec.brokers
        if cluster.spec.paused or not (desired or managed or (brokers and brokers.tags_from_node_labels)):
            self._note(cluster, progress, {})
            return context.resync_s(cluster)
        pool = await context.pool(cluster)
        if pool is None:
            return LAGGING_RETRY
        own, unknown = await self._own(cluster, pool)
        not_dynamic = {} if brokers is not None else await self._not_dynamic(pool, desired)
        if not_dynamic is None:
            return LAGGING_RETRY
        desired = {key: value for key, value in desired.items() if key not in not_dynamic}
        remember = partial(self._remember, cluster)
        wanted = WantedConfig(desired, managed, remember, own=own, bundled=brokers is not None)
        result = await enforce_config(pool, wanted)
        if len(result.unseen) == len(pool.brokers):
            return LAGGING_RETRY
        places = frozenset((broker.broker_id, broker.host) for broker in pool.brokers)
        looked = _InForce(cluster.metadata.uid, desired, own, places)
        refused = "; ".join([*not_dynamic.values(), *_refusals(result)])
        await self._report(cluster, result, refused, drifted=self._in_force.get(key) == looked)
        self._note(cluster, progress, {**unknown, **result.lagging}, refused)
        if result.lagging or result.failures:
            self._in_force.pop(key, None)
        elif result.is_complete:
            self._in_force[key] = looked
        return context.resync_s(cluster) if result.is_complete else LAGGING_RETRY

    async def _own(self, cluster: BrokerCluster, pool: BrokerPool) -> tuple[OwnTags, dict[int, str]]:
        brokers = cluster.spec.brokers
        if brokers is None:
            return NO_OWN_TAGS, {}
        everybody = frozenset({*range(brokers.replicas), *(broker.broker_id for broker in pool.brokers)})
        return await self._own_tags(cluster, brokers, everybody)

    async def _not_dynamic(self, pool: BrokerPool, desired: Mapping[str, str]) -> dict[str, str] | None:
        """Return why keys are not dynamic, by key; None if no broker answers."""
        try:
            return await why_not_dynamic(pool, desired)
        except (KafkaAdminError, NoBrokerError):
            return None

    def _note(
        self, cluster: BrokerCluster, progress: ClusterProgress, lagging: Mapping[int, str], refused: str = ""
    ) -> None:
        key, generation = (cluster.namespace, cluster.name), cluster.metadata.generation
        found = (lagging, refused, generation)
        if (progress.config_lagging, progress.config_refused, progress.config_generation) != found:
            progress.config_lagging, progress.config_refused, progress.config_generation = found
            self._context.mark(Queue.CLUSTERS, key)

    async def _remember(self, cluster: BrokerCluster, managed: tuple[str, ...]) -> None:
        await self._context.remember(cluster, {"dynamicConfigKeys": list(managed)})

    async def _report(self, cluster: BrokerCluster, result: ConfigResult, refused: str, *, drifted: bool) -> None:
        post = self._context.post
        if result.changes:
            self._context.mark(Queue.DESCRIPTIONS, (cluster.namespace, cluster.name))
        if refused:
            await post(cluster, "Warning", "ConfigRefused", refused)
        if result.failures or not result.changes:
            return
        sentence = "changed without a restart: " + "; ".join(str(action) for action in result.changes)
        if drifted:
            await post(cluster, "Warning", "ConfigDriftMended", sentence)
        else:
            await post(cluster, "Normal", "ConfigApplied", sentence)


def _refusals(result: ConfigResult) -> list[str]:
    """Return the brokers' messages about values that they refuse permanently."""
    refusals = (failure.error for failure in result.failures)
    return [str(error) for error in refusals if is_refusal(error)]
