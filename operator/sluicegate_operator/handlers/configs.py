"""Dynamic configuration of spec.config: set on the running brokers, read back from each, mended when a hand changed it.

The keys are written into the cluster's status before they are set, see planning.broker_config.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.asking import BrokerPool
from sluicegate_operator.fleet.enforce import apply_actions, observe_limits
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.snapshot import ClusterKey, gather_cluster
from sluicegate_operator.kube.client import CONFIG_STATUS_MANAGER
from sluicegate_operator.kube.kinds import BROKER_CLUSTER
from sluicegate_operator.planning.broker_config import BrokerConfigPlan, plan_broker_config
from sluicegate_operator.planning.cluster_layout import dynamic_config
from sluicegate_operator.planning.quotas import ObservedLimits, SetBrokerConfigs

log = logging.getLogger(__name__)

LAGGING_RETRY_S = 1.0
READ_BACK_S = 5.0
READ_BACK_PAUSE_S = 0.05


class ConfigReconciler:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._in_force: dict[ClusterKey, Mapping[str, str]] = {}
        """What was last seen on all brokers: a difference found while this is still wanted is drift."""

    async def reconcile(self, key: ClusterKey) -> float | None:
        context = self._context
        cluster = await gather_cluster(context.kube, key)
        if cluster is None or cluster.spec.brokers is None:
            self._in_force.pop(key, None)
            return None
        desired, managed = dynamic_config(cluster), cluster.status.dynamic_config_keys
        if cluster.spec.paused or not (desired or managed):
            self._note(key, {})
            return context.resync_s(cluster)
        pool = await context.pool(cluster)
        if pool is None:
            return LAGGING_RETRY_S
        plan = plan_broker_config(desired, await _observe(pool, desired, managed), managed)
        await self._remember(cluster, plan)
        refused = await self._apply(key, cluster, pool, plan)
        lagging = await self._read_back(pool, desired, plan) if plan.actions else plan.lagging
        self._note(key, {**lagging, **refused})
        if lagging or refused:
            self._in_force.pop(key, None)
            return LAGGING_RETRY_S
        self._in_force[key] = desired
        # Keys that are gone leave the status at the next look.
        return LAGGING_RETRY_S if set(plan.managed) != set(desired) else context.resync_s(cluster)

    def _note(self, key: ClusterKey, lagging: Mapping[int, str]) -> None:
        progress = self._context.progress[key]
        if progress.config_lagging != lagging:
            progress.config_lagging = lagging
            self._context.mark("clusters", key)

    async def _remember(self, cluster: BrokerCluster, plan: BrokerConfigPlan) -> None:
        if plan.managed != cluster.status.dynamic_config_keys:
            status = {"dynamicConfigKeys": list(plan.managed)}
            await self._context.kube.apply_status(
                BROKER_CLUSTER, cluster.namespace, cluster.name, status, manager=CONFIG_STATUS_MANAGER
            )

    async def _apply(
        self, key: ClusterKey, cluster: BrokerCluster, pool: BrokerPool, plan: BrokerConfigPlan
    ) -> dict[int, str]:
        """What the brokers refused."""
        if not plan.actions:
            return {}
        failures = await apply_actions(pool, plan.actions)
        drifted = self._in_force.get(key) == dynamic_config(cluster)
        type_, reason = ("Warning", "ConfigDriftMended") if drifted else ("Normal", "ConfigApplied")
        if not failures:
            await self._context.post(cluster, type_, reason, f"without a restart: {_sentence(plan.actions)}")  # type: ignore[arg-type]
            return {}
        for failure in failures:
            await self._context.post(cluster, "Warning", "ConfigRefused", f"{failure.action}: {failure.error}")
        return {-1: "; ".join(str(failure.error) for failure in failures)}

    async def _read_back(
        self, pool: BrokerPool, desired: Mapping[str, str], plan: BrokerConfigPlan
    ) -> Mapping[int, str]:
        """What lags after as long as brokers take to hear of it."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + READ_BACK_S
        while True:
            seen = plan_broker_config(desired, await _observe(pool, desired, plan.managed), plan.managed)
            if not seen.lagging or loop.time() >= until_s:
                return seen.lagging
            await asyncio.sleep(READ_BACK_PAUSE_S)


async def _observe(pool: BrokerPool, desired: Mapping[str, str], managed: Sequence[str]) -> dict[int, ObservedLimits]:
    """Of the brokers that answer: one that is away learns it when it comes back."""
    seen = await observe_limits(pool, sorted({*desired, *managed}))
    return {broker_id: limits for broker_id, limits in seen.items() if isinstance(limits, ObservedLimits)}


def _sentence(actions: Sequence[SetBrokerConfigs]) -> str:
    return "; ".join(str(action) for action in actions)
