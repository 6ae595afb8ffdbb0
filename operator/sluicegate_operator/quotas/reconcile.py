"""The quota path: one pass over all ConnectionQuotas of a cluster.

reconcile = gather -> plan -> compare with the ledger -> send -> read back -> queue the statuses that differ.

Brokers are asked for changed limits, and for everything at a start, at each resync, and after they did not answer.
Nothing here waits for a roll or for a status, and nothing here restarts a broker.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.connection_quota import AFTER_ALL, ConnectionQuota
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.context.context import QuotaContext
from sluicegate_operator.engine.context.progress import ClusterProgress
from sluicegate_operator.engine.context.snapshot import ClusterKey, Snapshot
from sluicegate_operator.engine.work_queue import Again, Retry, unless_refused
from sluicegate_operator.fleet.kafka.asking import BrokerPool, serving_brokers
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.kinds import BROKER_LISTENER, CONNECTION_QUOTA
from sluicegate_operator.planning.layout.cluster_layout import cluster_listeners, plan_cluster
from sluicegate_operator.planning.limits.connection_groups import group_name
from sluicegate_operator.planning.limits.workloads import Members
from sluicegate_operator.planning.listeners.exposure import hiding_of_all
from sluicegate_operator.quotas.brokers import (
    EnforcementResult,
    EnforcementState,
    ListenerWishes,
    WantedLimits,
    enforce,
)
from sluicegate_operator.quotas.external_limits import ExternalLimits
from sluicegate_operator.quotas.kept_limits import Keep
from sluicegate_operator.quotas.model.targets import QuotaName
from sluicegate_operator.quotas.plan import Scope
from sluicegate_operator.quotas.quota_names import QuotaNames
from sluicegate_operator.quotas.state.known import ClusterFacts, PassTimes
from sluicegate_operator.quotas.state.state import GovernedQuotas

log = logging.getLogger(__name__)

LAGGING_RETRY = Retry(1.0, 10.0)
READ_BACK_S = 5.0
STARTING_S = 30.0
"""New quotas that wait for brokers get no status during this time after the first pass over a cluster.

It ends earlier if all brokers of the cluster are ready.
"""
KAFKAS_STRATEGY = "windowed"
_END = object()


class SelectedPods(Protocol):
    """The pods that ConnectionQuotas with a workload select, and their addresses.

    They exist only on Kubernetes.
    """

    @property
    def in_all_namespaces(self) -> bool: ...

    @property
    def unseen(self) -> str:
        """The reason why changes of pods have not been seen for some time; empty while they are seen."""

    def keep(self, cluster: ClusterKey, quotas: Iterable[ConnectionQuota]) -> None:
        """Watch the pods that these ConnectionQuotas select; they are all those of the cluster."""

    def take_news(self, cluster: ClusterKey) -> Mapping[QuotaName, Members]:
        """Return the addresses of selected pods by quota, for the quotas whose pods changed since the last call.

        Empty before all are known.
        """


class QuotaReconciler:
    """Enforces the ConnectionQuotas of a cluster on its brokers, and keeps their statuses current.

    `governed` has its knowledge of each cluster.
    """

    def __init__(self, context: QuotaContext, pods: SelectedPods | None = None) -> None:
        """`pods` is None if there are no pods that quotas could select."""
        self._context = context
        self._pods = pods
        self.governed: dict[ClusterKey, GovernedQuotas] = {}
        self._step = asyncio.Lock()
        self._external = ExternalLimits(context)
        self._names = QuotaNames()

    async def reconcile(self, key: ClusterKey) -> Again:
        """Enforce the quotas of one cluster in one pass, and return when the next is due.

        Raises KubeError.
        """
        context = self._context
        snapshot, refusals = await context.gather(key, [BROKER_LISTENER, CONNECTION_QUOTA]), Refusals()
        cluster = snapshot.cluster
        if cluster is None:
            self._external.forget(key)
            self._names.forget(key)
        if self._pods is not None:
            self._pods.keep(key, snapshot.quotas)
        if cluster is None and not snapshot.quotas:
            self.governed.pop(key, None)
            context.figures.note_quotas(key, None)
            await context.report_unreadable(snapshot.unreadable_of(CONNECTION_QUOTA), refusals)
            return unless_refused(refusals, None)
        progress = ClusterProgress() if cluster is None else context.progress.of(cluster)
        governed = self.governed.setdefault(
            key, GovernedQuotas(times=PassTimes(starts_until_s=asyncio.get_running_loop().time() + STARTING_S))
        )
        await self._plan(key, governed, snapshot)
        context.figures.note_quotas(key, governed.statuses.states)
        governed.paused = cluster is not None and cluster.spec.paused
        if cluster is None:
            governed.forget_brokers()
            await self._queue_statuses(key, governed)
            again: Again = None
        elif governed.paused:
            # Changed limits stay unsent until the pause ends.
            await self._queue_statuses(key, governed)
            again = context.resync_s(cluster)
        else:
            again = await self._govern(cluster, governed, snapshot, progress)
        await context.report_unreadable(snapshot.unreadable_of(CONNECTION_QUOTA), refusals)
        return unless_refused(refusals, again)

    async def _plan(self, key: ClusterKey, governed: GovernedQuotas, snapshot: Snapshot) -> None:
        pods = self._pods
        everywhere = pods is None or pods.in_all_namespaces
        scope = Scope.of(snapshot.cluster, snapshot.listeners, in_all_namespaces=everywhere)
        selected = pods.take_news(key) if pods is not None else {}
        now = datetime.now(UTC)
        await self._in_steps(governed.replan(snapshot.cluster, scope, snapshot.quotas, selected, now))

    async def _govern(
        self, cluster: BrokerCluster, governed: GovernedQuotas, snapshot: Snapshot, progress: ClusterProgress
    ) -> Again:
        key = (cluster.namespace, cluster.name)
        loop = asyncio.get_running_loop()
        governed.keep_to(cluster.metadata.uid)
        unreadable = snapshot.unreadable_of(BROKER_LISTENER, CONNECTION_QUOTA)
        unknown = [
            f"the pods that ConnectionQuota {name} selects are not known yet" for name in governed.without_pods[:1]
        ]
        unknown_limits = "; ".join([*(str(item) for item in unreadable), *unknown])
        is_resync = loop.time() >= governed.times.resync_at_s
        if is_resync:
            governed.brokers.ledger.read_all()
            governed.times = replace(governed.times, resync_at_s=loop.time() + self._context.resync_s(cluster))
        pool = await self._context.pool(cluster)
        result = None if pool is None else await self._enforce(cluster, pool, governed, keeps_all=bool(unreadable))
        if result is not None and result.drift:
            await self._report_drift(cluster, result)
        unreachable = self._note_silences(pool, governed, result)
        if progress.unreachable.keys() != unreachable.keys():
            progress.unreachable = unreachable
            self._context.mark(Queue.CLUSTERS, key)
        expected = _expected(cluster, snapshot, pool)
        facts = ClusterFacts(
            expected,
            frozenset(unreachable),
            hiding_of_all(cluster_listeners(cluster, snapshot.listeners)),
            # A quota whose listener is missing may name one of those that cannot be read.
            mute=bool(snapshot.unreadable_of(BROKER_LISTENER)),
            strategy=_strategy(cluster),
            error=_why(result) or unknown_limits,
        )
        governed.brokers = replace(governed.brokers, facts=facts)
        if _all_ready(expected, pool):
            governed.times = replace(governed.times, starts_until_s=0.0)
        await self._queue_statuses(key, governed, result)
        if pool is not None and not cluster.spec.is_external:
            await self._names.send(cluster, pool, governed.plan, check=is_resync)
        if governed.observing or (governed.enforces and not cluster.spec.is_external):
            self._context.mark(Queue.OBSERVED, key)
        if not self._is_complete(governed, result, unknown_limits=bool(unknown_limits)):
            return LAGGING_RETRY
        ledger = governed.brokers.ledger
        next_read_s = min(governed.times.resync_at_s, ledger.doubts.next_read_s(ledger.silent))
        return min(max(0.0, next_read_s - loop.time()), _until_next_end_s(governed))

    async def _queue_statuses(
        self, key: ClusterKey, governed: GovernedQuotas, result: EnforcementResult | None = None
    ) -> None:
        """Queue the quotas whose statuses differ."""
        starting = not governed.paused and asyncio.get_running_loop().time() < governed.times.starts_until_s
        unseen = "" if self._pods is None else self._pods.unseen
        governed.brokers = replace(governed.brokers, facts=replace(governed.brokers.facts, pods_unseen=unseen))
        sent = frozenset(key for action in result.changes for key in action.keys) if result is not None else frozenset()
        moment = _wall_time(result)
        await self._in_steps(governed.assess(self._context.first_seen, moment, sent=sent, starting=starting))
        if governed.statuses.waiting:
            self._context.mark(Queue.STATUSES, key)

    def _is_complete(self, governed: GovernedQuotas, result: EnforcementResult | None, *, unknown_limits: bool) -> bool:
        """Return whether all expected brokers enforce all limits.

        A broker that is being removed is asked, but does not count.
        """
        if unknown_limits:
            return result is not None and result.is_complete
        states = {} if result is None else {broker.broker_id: broker.state for broker in result.brokers}
        done = all(states.get(broker_id) is EnforcementState.ENFORCED for broker_id in governed.brokers.facts.expected)
        return done and result is not None and not governed.closed_somewhere

    async def _enforce(
        self, cluster: BrokerCluster, pool: BrokerPool, governed: GovernedQuotas, *, keeps_all: bool
    ) -> EnforcementResult:
        key = (cluster.namespace, cluster.name)
        plan, changed = governed.plan, governed.unsent
        wanted = WantedLimits(
            plan.desired,
            asyncio.get_running_loop().time(),
            READ_BACK_S,
            changed=changed,
            keep=Keep(keeps_all, frozenset(group_name(key[0], name) for name in governed.without_pods)),
            listeners=ListenerWishes(plan.closing, always_read=governed.closed_somewhere),
            gives_way=lambda: self._context.is_due(Queue.QUOTAS, key),
        )
        if cluster.spec.is_external:
            result = await self._external.enforce(cluster, pool, wanted, governed.brokers.ledger)
        else:
            result = await enforce(pool, wanted, governed.brokers.ledger)
        governed.unsent -= changed
        return result

    async def _report_drift(self, cluster: BrokerCluster, result: EnforcementResult) -> None:
        self._context.figures.note_drift(len(result.drift))
        changed = "; ".join(str(change) for change in result.drift[:5])
        await self._context.post(
            cluster,
            "Warning",
            "QuotaDriftMended",
            f"limits on the brokers were changed manually and have been restored: {changed}",
        )

    def _note_silences(
        self, pool: BrokerPool | None, governed: GovernedQuotas, result: EnforcementResult | None
    ) -> Mapping[int, str]:
        """Return the brokers that have been silent for so long that they count as unreachable, with the reason."""
        now_s = asyncio.get_running_loop().time()
        up = {broker.broker_id for broker in pool.brokers if broker.up} if pool is not None else set()
        found = result.brokers if result is not None else ()
        silent = {b.broker_id: b.detail for b in found if b.state is EnforcementState.UNREACHABLE}
        for broker_id in governed.brokers.ledger.brokers.keys() - ({b.broker_id for b in found} - (silent.keys() - up)):
            # The broker was not expected to answer (no address, or its pod is not ready): its earlier answers are from
            # before a restart.
            governed.brokers.ledger.forget(broker_id)
        silences = governed.brokers.silences.after({b: why for b, why in silent.items() if b in up}, now_s)
        governed.brokers = replace(governed.brokers, silences=silences)
        return silences.unreachable(now_s)

    async def _in_steps(self, work: Iterator[object]) -> None:
        """Do the work in steps, and let other tasks run after each step.

        Only one cluster does a step at a time: a step takes milliseconds, and all clusters are due together at a start.
        """
        goes_on = True
        while goes_on:
            async with self._step:
                goes_on = next(work, _END) is not _END
                await asyncio.sleep(0)


def _strategy(cluster: BrokerCluster) -> str:
    """Return the strategy by which brokers measure rates. Apache Kafka always uses windows."""
    settings = cluster.spec.connection_quota
    return KAFKAS_STRATEGY if settings is None else settings.strategy


def _expected(cluster: BrokerCluster, snapshot: Snapshot, pool: BrokerPool | None) -> tuple[int, ...]:
    """Return the brokers that should enforce everything: those of the spec, and removed ones that still serve.

    A cluster of external brokers has no count in its spec: all registered brokers are expected.
    """
    if not cluster.spec.is_external:
        return serving_brokers(plan_cluster(cluster, snapshot.listeners).broker_ids, pool)
    return tuple(broker.broker_id for broker in pool.brokers) if pool is not None else ()


def _all_ready(expected: Collection[int], pool: BrokerPool | None) -> bool:
    return pool is not None and {broker.broker_id for broker in pool.brokers if broker.up}.issuperset(expected)


def _until_next_end_s(governed: GovernedQuotas) -> float:
    """Return the seconds until the next expiresAt of a quota."""
    ends = governed.plan.next_expiry
    return float("inf") if ends == AFTER_ALL else max(0.0, (ends - datetime.now(UTC)).total_seconds())


def _why(result: EnforcementResult | None) -> str:
    """Return the reason of the first refused change, else of the first broker that lags."""
    if result is None:
        return "no broker has an address yet"
    for failure in result.failures:
        return str(failure.error)
    return next((broker.detail for broker in result.lagging if broker.detail), "")


def _wall_time(result: EnforcementResult | None) -> datetime:
    """Return when the last broker was seen to enforce everything; the present time if one does not."""
    moment = datetime.now(UTC)
    if result is None or result.enforced_at_s is None:
        return moment
    return moment - timedelta(seconds=asyncio.get_running_loop().time() - result.enforced_at_s)
