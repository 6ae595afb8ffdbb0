"""The quota path: all ConnectionQuotas of one cluster, from their manifests to every broker and back into their status.

All quotas of a cluster are planned together, since two on one target decide by each other. Nothing here waits for a
roll, and nothing here restarts a broker.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.connection_quota import ConnectionQuota, ConnectionQuotaStatus
from sluicegate_operator.engine.snapshot import ClusterKey, Snapshot
from sluicegate_operator.engine.work_queue import Again, Retry
from sluicegate_operator.fleet.asking import BrokerPool
from sluicegate_operator.fleet.enforce import Enforcement, EnforcementResult, enforce
from sluicegate_operator.handlers.context import STATUS_WRITERS_MAX, Context
from sluicegate_operator.handlers.snapshot import gather_snapshot
from sluicegate_operator.handlers.telemetry import APPLY_TO_ENFORCED, DRIFT_MENDED
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from sluicegate_operator.kube.kinds import BROKER_LISTENER, CONNECTION_QUOTA
from sluicegate_operator.planning import quota_status
from sluicegate_operator.planning.broker_answers import BrokerAnswers
from sluicegate_operator.planning.cluster_layout import cluster_listeners, plan_cluster
from sluicegate_operator.planning.exposure import hiding_of_all
from sluicegate_operator.planning.quotas import (
    DesiredLimits,
    ObservedLimits,
    QuotaPlan,
    concerns,
    has_open,
    lagging_brokers,
    plan_quotas,
)

log = logging.getLogger(__name__)

LAGGING_RETRY = Retry(1.0, 10.0)
READ_BACK_S = 5.0
STATUSES_A_TURN = 25
"""So many are worked out before others have the event loop: about 5 ms."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """`unreachable`: why, for each broker that has been silent for long. `held`: why brokers may have stricter limits
    than planned."""

    result: EnforcementResult | None
    unreachable: Mapping[int, str]
    held: str


class QuotaReconciler:
    """Enforces the ConnectionQuotas of a cluster on its brokers, and says in their status how far that is."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._enforced: dict[ClusterKey, DesiredLimits] = {}
        """What was last seen in force on all brokers: a difference found while this is still wanted is drift."""
        self._answers: dict[ClusterKey, BrokerAnswers] = {}

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        snapshot = await gather_snapshot(context.kube, key, [BROKER_LISTENER, CONNECTION_QUOTA])
        await context.say_unreadable(snapshot.unreadable_of(CONNECTION_QUOTA))
        cluster = snapshot.cluster
        plan = plan_quotas(cluster, snapshot.listeners, snapshot.quotas)
        context.figures.note_untold(key, context.first_seen.untold((*snapshot.listeners, *snapshot.quotas)))
        if cluster is None or cluster.spec.brokers is None:
            self._enforced.pop(key, None)
            self._answers.pop(key, None)
            return None if await self._write(key, snapshot.quotas, plan, {}, None) else 0.0
        if cluster.spec.paused:
            return context.resync_s(cluster)
        held = "; ".join(str(item) for item in snapshot.unreadable_of(BROKER_LISTENER, CONNECTION_QUOTA))
        pool = await context.pool(cluster)
        result = None if pool is None else await self._enforce(pool, plan, hold=bool(held))
        unreachable = self._note_answers(key, pool, result)
        if held:
            # Limits may follow from what cannot be read, so none was lifted or loosened.
            self._enforced.pop(key, None)
        else:
            await self._note_drift(key, cluster, result)
        return await self._write_seen(cluster, snapshot, plan, _Seen(result, unreachable, held))

    async def _enforce(self, pool: BrokerPool, plan: QuotaPlan, *, hold: bool) -> EnforcementResult:
        started_s = asyncio.get_running_loop().time()
        wanted = Enforcement(plan.desired, started_s, READ_BACK_S, hold=hold, closing=plan.closing)
        return await enforce(pool, wanted)

    async def _note_drift(self, key: ClusterKey, cluster: BrokerCluster, result: EnforcementResult | None) -> None:
        if result is None:
            return
        if result.changes and self._enforced.get(key) == result.desired:
            DRIFT_MENDED.inc(len(result.changes))
            changed = "; ".join(str(change) for change in result.changes[:5])
            await self._context.post(
                cluster, "Warning", "QuotaDriftMended", f"limits were changed by hand on the brokers: {changed}"
            )
        if result.is_complete:
            self._enforced[key] = result.desired
        else:
            self._enforced.pop(key, None)

    def _note_answers(
        self, key: ClusterKey, pool: BrokerPool | None, result: EnforcementResult | None
    ) -> Mapping[int, str]:
        """The brokers that have been silent for so long that it counts, with why; the cluster's status says so."""
        now_s = asyncio.get_running_loop().time()
        up = {broker.broker_id for broker in pool.brokers if broker.up} if pool is not None else set()
        found = result.brokers if result is not None else ()
        answered = {broker.broker_id: broker.observed for broker in found if broker.observed is not None}
        silent = {b.broker_id: b.detail for b in found if b.broker_id not in answered and b.broker_id in up}
        answers = self._answers[key] = self._answers.get(key, BrokerAnswers()).after(answered, silent, now_s)
        unreachable = answers.unreachable(now_s)
        progress = self._context.progress[key]
        if progress.unreachable.keys() != unreachable.keys():
            progress.unreachable = unreachable
            self._context.mark("clusters", key)
        return unreachable

    async def _write_seen(self, cluster: BrokerCluster, snapshot: Snapshot, plan: QuotaPlan, seen: _Seen) -> Again:
        key, result = (cluster.namespace, cluster.name), seen.result
        quotas = snapshot.quotas
        if snapshot.unreadable_of(BROKER_LISTENER):
            # One that misses its listener may have it among these.
            quotas = tuple(q for q in quotas if q.name in plan.verdicts and plan.verdicts[q.name].target_found)
        expected = plan_cluster(cluster, snapshot.listeners).broker_ids
        observed = self._answers[key].observed(asyncio.get_running_loop().time())
        lagging = lagging_brokers(plan, expected, observed)
        hidden = hiding_of_all(cluster_listeners(cluster, snapshot.listeners))
        error, refused = _why(result) or seen.held, _refused(plan, result)
        enforcements = {
            name: quota_status.Enforcement(
                expected,
                behind,
                error=_why_behind(plan, name, observed, refused.get(name, error)) if behind else "",
                refused=name in refused and bool(behind) and not _is_closed(plan, name, observed),
                unreachable=seen.unreachable.keys() & set(behind),
                hiding=hidden,
            )
            for name, behind in lagging.items()
        }
        if not await self._write(key, quotas, plan, enforcements, result):
            return 0.0
        if seen.held:
            complete = result is not None and result.is_complete
        else:
            # A broker that is on its way out is asked as well, and not counted.
            answered = result.observed.keys() if result is not None else ()
            complete = set(expected) <= set(answered) and not any(lagging.values())
        return self._context.resync_s(cluster) if complete else LAGGING_RETRY

    async def _write(
        self,
        key: ClusterKey,
        quotas: Sequence[ConnectionQuota],
        plan: QuotaPlan,
        enforcements: Mapping[str, quota_status.Enforcement],
        result: EnforcementResult | None,
    ) -> bool:
        """Newest first, several at a time; False when something has changed meanwhile, which is not to wait for the
        rest: limits come before what is told of them."""
        enforced_at = _wall_time(result)
        waiting: deque[tuple[ConnectionQuota, ConnectionQuotaStatus]] = deque()
        states: list[str] = []
        for number, quota in enumerate(sorted(quotas, key=self._age)):
            if number % STATUSES_A_TURN == 0:
                await asyncio.sleep(0)
            if quota.name not in plan.verdicts:
                continue
            known = replace(
                enforcements.get(quota.name, quota_status.Enforcement()),
                learned_at=self._context.first_seen.of(quota),
            )
            status = quota_status.quota_status(quota, plan, known, enforced_at)
            states += [found.reason for found in status.conditions if found.type == quota_status.ENFORCED]
            if status.manifest() != quota.status.manifest():
                waiting.append((quota, status))
        self._context.figures.note_quotas(key, states)
        writers = (self._write_waiting(key, waiting) for _ in range(min(len(waiting), STATUS_WRITERS_MAX)))
        for ended in await asyncio.gather(*writers, return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended
        return not waiting

    def _age(self, quota: ConnectionQuota) -> tuple[bool, float]:
        """Those whose newest spec has not been told of come first, the newest of them before the others."""
        learned = self._context.first_seen.of(quota)
        told = quota.status.observed_generation == quota.metadata.generation
        return told, -learned.timestamp() if learned else 0.0

    async def _write_waiting(
        self, key: ClusterKey, waiting: deque[tuple[ConnectionQuota, ConnectionQuotaStatus]]
    ) -> None:
        while waiting:
            quota, status = waiting.popleft()
            if await self._context.write_status(quota, status):
                await self._tell(quota, status)
            if self._context.is_due("quotas", key):
                return

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
    closed = _is_closed(plan, quota, observed)
    return f"they do not have listener {plan.verdicts[quota].target.name} open" if closed else error


def _is_closed(plan: QuotaPlan, quota: str, observed: Mapping[int, ObservedLimits]) -> bool:
    return any(not has_open(plan.verdicts[quota].target, limits) for limits in observed.values())


def _refused(plan: QuotaPlan, result: EnforcementResult | None) -> dict[str, str]:
    """By quota, what brokers say of a limit that they will not take whenever they are asked."""
    found = {}
    for failure in result.failures if result is not None else ():
        if isinstance(failure.error, KafkaApiError) and not failure.error.retriable:
            for name, verdict in plan.verdicts.items():
                if verdict.target_found and concerns(failure.action, verdict.target, plan.limits[verdict.target]):
                    found[name] = str(failure.error)
    return found


def _wall_time(result: EnforcementResult | None) -> datetime:
    """When the last broker was seen to enforce everything; now, where there is no such moment."""
    moment = datetime.now(UTC)
    if result is None or result.enforced_at_s is None:
        return moment
    return moment.fromtimestamp(moment.timestamp() - (asyncio.get_running_loop().time() - result.enforced_at_s), tz=UTC)
