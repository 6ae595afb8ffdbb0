"""The quota path: all ConnectionQuotas of one cluster, from their manifests to every broker and back into their status.

All quotas of a cluster are planned together, since two on one target decide by each other. Nothing here waits for a
roll, and nothing here restarts a broker.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.connection_quota import ConnectionQuota, ConnectionQuotaStatus
from sluicegate_operator.fleet.enforce import Enforcement, EnforcementResult, enforce
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.snapshot import ClusterKey, Snapshot, gather_snapshot
from sluicegate_operator.handlers.telemetry import APPLY_TO_ENFORCED, DRIFT_MENDED
from sluicegate_operator.kube.kinds import BROKER_LISTENER, CONNECTION_QUOTA
from sluicegate_operator.planning import quota_status
from sluicegate_operator.planning.cluster_layout import plan_cluster
from sluicegate_operator.planning.quotas import (
    DesiredLimits,
    ObservedLimits,
    QuotaPlan,
    has_open,
    lagging_brokers,
    plan_quotas,
)

log = logging.getLogger(__name__)

LAGGING_RETRY_S = 1.0
READ_BACK_S = 5.0


class QuotaReconciler:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._enforced: dict[ClusterKey, DesiredLimits] = {}
        """What was last seen in force on all brokers: a difference found while this is still wanted is drift."""

    async def reconcile(self, key: ClusterKey) -> float | None:
        context = self._context
        snapshot = await gather_snapshot(context.kube, key)
        await context.say_unreadable(snapshot.unreadable_of(CONNECTION_QUOTA))
        cluster = snapshot.cluster
        plan = plan_quotas(cluster, snapshot.listeners, snapshot.quotas)
        if cluster is None or cluster.spec.brokers is None:
            self._enforced.pop(key, None)
            await self._write(snapshot.quotas, plan, {}, None)
            return None
        if cluster.spec.paused:
            return context.resync_s(cluster)
        held = "; ".join(str(item) for item in snapshot.unreadable_of(BROKER_LISTENER, CONNECTION_QUOTA))
        if held:
            return await self._reconcile_held(cluster, snapshot, plan, held)
        result = await self._enforce(cluster, plan)
        await self._note_drift(key, cluster, plan, result)
        complete = await self._write_seen(cluster, snapshot, plan, result)
        return context.resync_s(cluster) if complete else LAGGING_RETRY_S

    async def _reconcile_held(
        self, cluster: BrokerCluster, snapshot: Snapshot, plan: QuotaPlan, held: str
    ) -> float | None:
        """Limits may follow from what cannot be read, so none is lifted or loosened."""
        self._enforced.pop((cluster.namespace, cluster.name), None)
        result = await self._enforce(cluster, plan, hold=True)
        if snapshot.unreadable_of(BROKER_LISTENER):
            found = [q for q in snapshot.quotas if q.name in plan.verdicts and plan.verdicts[q.name].target_found]
            snapshot = replace(snapshot, quotas=tuple(found))
        await self._write_seen(cluster, snapshot, plan, result, held)
        seen = result is not None and result.is_complete
        return self._context.resync_s(cluster) if seen else LAGGING_RETRY_S

    async def _enforce(
        self, cluster: BrokerCluster, plan: QuotaPlan, *, hold: bool = False
    ) -> EnforcementResult | None:
        pool = await self._context.pool(cluster)
        if pool is None:
            return None
        started_s = asyncio.get_running_loop().time()
        return await enforce(pool, Enforcement(plan.desired, started_s, READ_BACK_S, hold=hold))

    async def _note_drift(
        self, key: ClusterKey, cluster: BrokerCluster, plan: QuotaPlan, result: EnforcementResult | None
    ) -> None:
        if result is None:
            return
        if result.changes and self._enforced.get(key) == plan.desired:
            DRIFT_MENDED.inc(len(result.changes))
            changed = "; ".join(str(change) for change in result.changes[:5])
            await self._context.post(
                cluster, "Warning", "QuotaDriftMended", f"limits were changed by hand on the brokers: {changed}"
            )
        if result.is_complete:
            self._enforced[key] = plan.desired
        else:
            self._enforced.pop(key, None)

    async def _write_seen(
        self,
        cluster: BrokerCluster,
        snapshot: Snapshot,
        plan: QuotaPlan,
        result: EnforcementResult | None,
        held: str = "",
    ) -> bool:
        """`held`: why brokers may have stricter limits than planned."""
        expected = plan_cluster(cluster, snapshot.listeners).broker_ids
        observed = result.observed if result is not None else {}
        lagging = lagging_brokers(plan, expected, observed)
        error = _why(result) or held
        enforcements = {
            name: quota_status.Enforcement(
                expected, behind, error=_why_behind(plan, name, observed, error) if behind else ""
            )
            for name, behind in lagging.items()
        }
        await self._write(snapshot.quotas, plan, enforcements, result)
        # A broker that is on its way out is asked as well, and not counted.
        return set(expected) <= set(observed) and not any(lagging.values())

    async def _write(
        self,
        quotas: Sequence[ConnectionQuota],
        plan: QuotaPlan,
        enforcements: Mapping[str, quota_status.Enforcement],
        result: EnforcementResult | None,
    ) -> None:
        enforced_at = _wall_time(result)
        for quota in quotas:
            if quota.name not in plan.verdicts:
                continue
            base = enforcements.get(quota.name, quota_status.Enforcement())
            known = quota_status.Enforcement(
                base.expected, base.lagging, self._context.first_seen.of(quota), base.error
            )
            status = quota_status.quota_status(quota, plan, known, enforced_at)
            if await self._context.write_status(quota, status):
                await self._tell(quota, status)

    async def _tell(self, quota: ConnectionQuota, status: ConnectionQuotaStatus) -> None:
        if status.enforced_at is not None and status.enforced_at != quota.status.enforced_at:
            took = f" {status.apply_seconds:g} s after it was changed" if status.apply_seconds is not None else ""
            await self._context.post(quota, "Normal", "Enforced", f"in force on {status.brokers} brokers{took}")
            if status.apply_seconds is not None:
                APPLY_TO_ENFORCED.observe(status.apply_seconds)
        ready = status.condition("Ready")
        stalled = status.condition("Stalled")
        before = quota.status.condition("Stalled")
        if stalled is not None and stalled.status == "True" and (before is None or before.reason != stalled.reason):
            await self._context.post(quota, "Warning", stalled.reason, ready.message if ready else stalled.message)


def _why(result: EnforcementResult | None) -> str:
    """What the first broker that lags, or the first refused change, says."""
    if result is None:
        return "no broker has an address yet"
    for failure in result.failures:
        return str(failure.error)
    return next((broker.detail for broker in result.lagging if broker.detail), "")


def _why_behind(plan: QuotaPlan, quota: str, observed: Mapping[int, ObservedLimits], error: str) -> str:
    target = plan.verdicts[quota].target
    closed = any(not has_open(target, limits) for limits in observed.values())
    return error or (f"they do not have listener {target.name} open" if closed else "")


def _wall_time(result: EnforcementResult | None) -> datetime:
    """When the last broker was seen to enforce everything; now, where there is no such moment."""
    moment = datetime.now(UTC)
    if result is None or result.enforced_at_s is None:
        return moment
    return moment.fromtimestamp(moment.timestamp() - (asyncio.get_running_loop().time() - result.enforced_at_s), tz=UTC)
