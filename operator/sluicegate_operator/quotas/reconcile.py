"""The quota path: all ConnectionQuotas of one cluster, from their manifests to every broker.

A pass costs what has changed since the last one: planning, requests to brokers and judgement. All of it is looked at
when the operator has not seen it yet, at the resync, and of a broker that did not answer. What quotas are told of it is
written by quotas.statuses, in a queue of its own. Nothing here waits for a roll, and nothing here restarts a
broker.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.connection_quota import ConnectionQuota
from sluicegate_operator.engine.context import QuotaContext
from sluicegate_operator.engine.progress import ClusterProgress
from sluicegate_operator.engine.snapshot import ClusterKey, Snapshot
from sluicegate_operator.engine.work_queue import Again, Retry
from sluicegate_operator.fleet.asking import BrokerPool, serving_brokers
from sluicegate_operator.kube.kinds import BROKER_LISTENER, CONNECTION_QUOTA
from sluicegate_operator.planning.cluster_layout import cluster_listeners, plan_cluster
from sluicegate_operator.planning.exposure import hiding_of_all
from sluicegate_operator.planning.limits import LimitKey
from sluicegate_operator.quotas.brokers import EnforcementResult, EnforcementState, WantedLimits, enforce
from sluicegate_operator.quotas.plan import QuotaPlanner
from sluicegate_operator.quotas.remembered_limits import ExternalLimits
from sluicegate_operator.quotas.selected_pods import SelectedPods
from sluicegate_operator.quotas.state import MARKED_A_TURN, GovernedQuotas, Surroundings, enforces

log = logging.getLogger(__name__)

LAGGING_RETRY = Retry(1.0, 10.0)
READ_BACK_S = 5.0
STARTING_S = 30.0
"""So long after a cluster was first looked at, and until all its brokers are ready for the first time, a new quota is
not told that it waits for brokers."""
STATUSES = "statuses"
"""The queue of quotas.statuses."""
OBSERVED = "observed"
"""The queue of quotas.observed."""
KAFKAS_STRATEGY = "windowed"
_END = object()


class QuotaReconciler:
    """Enforces the ConnectionQuotas of a cluster on its brokers. `governed` is what it knows of each cluster."""

    def __init__(self, context: QuotaContext, pods: SelectedPods | None = None) -> None:
        """`pods`: None where there are none, and no quota selects any."""
        self._context = context
        self._pods = pods
        self.governed: dict[ClusterKey, GovernedQuotas] = {}
        self._turns = asyncio.Lock()
        self._external = ExternalLimits(context)

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        snapshot = await context.gather(key, [BROKER_LISTENER, CONNECTION_QUOTA])
        cluster = snapshot.cluster
        if cluster is None:
            self._external.forget(key)
        if cluster is None and not snapshot.quotas:
            self.governed.pop(key, None)
            if self._pods is not None:
                self._pods.keep(key, ())
            context.figures.note_quotas(key, None)
            await context.say_unreadable(snapshot.unreadable_of(CONNECTION_QUOTA))
            return None
        progress = ClusterProgress() if cluster is None else context.progress.of(cluster)
        governed = self.governed.setdefault(key, self._unknown())
        self._select(key, governed, snapshot.quotas)
        await self._in_turns(governed.planner.update(cluster, snapshot.listeners, snapshot.quotas, datetime.now(UTC)))
        governed.forget_gone()
        context.figures.note_quotas(key, governed.states)
        paused, governed.paused = governed.paused, cluster is not None and cluster.spec.paused
        if governed.paused and cluster is not None:
            again = await self._tell_paused(cluster, governed, begins=not paused)
        elif cluster is None:
            again = await self._tell_without_brokers(key, governed)
        else:
            again = await self._govern(cluster, governed, snapshot, progress)
        await context.say_unreadable(snapshot.unreadable_of(CONNECTION_QUOTA))
        return again

    def _unknown(self) -> GovernedQuotas:
        planner = QuotaPlanner(in_all_namespaces=self._pods is None or self._pods.in_all_namespaces)
        return GovernedQuotas(planner, starts_until_s=asyncio.get_running_loop().time() + STARTING_S)

    def _select(self, key: ClusterKey, governed: GovernedQuotas, quotas: Sequence[ConnectionQuota]) -> None:
        if self._pods is None:
            return
        self._pods.keep(key, quotas)
        if self._pods.unseen != governed.pods_unseen:
            governed.pods_unseen = self._pods.unseen
            known = governed.planner.quotas.values()
            governed.planner.changed_quotas.update(one.name for one in known if one.spec.target.workload is not None)
        selected = self._pods.take_news(key)
        governed.planner.select({name: members.addresses for name, members in selected.items()})
        governed.host_network_pods |= {name: members.host_network_pods for name, members in selected.items()}

    async def _tell_without_brokers(self, key: ClusterKey, governed: GovernedQuotas) -> Again:
        governed.forget_brokers()
        governed.planner.changed_quotas.clear()
        await self._mark(key, governed, set(governed.planner.quotas), datetime.now(UTC))
        return None

    async def _tell_paused(self, cluster: BrokerCluster, governed: GovernedQuotas, *, begins: bool) -> Again:
        """Changed quotas stay so until the pause ends, when brokers are asked and all quotas are told anew."""
        governed.around = Surroundings()
        names = governed.planner.quotas if begins else governed.planner.changed_quotas
        await self._mark((cluster.namespace, cluster.name), governed, set(names), datetime.now(UTC))
        return self._context.resync_s(cluster)

    async def _govern(
        self, cluster: BrokerCluster, governed: GovernedQuotas, snapshot: Snapshot, progress: ClusterProgress
    ) -> Again:
        key = (cluster.namespace, cluster.name)
        loop = asyncio.get_running_loop()
        governed.keep_to(cluster.metadata.uid)
        unreadable = snapshot.unreadable_of(BROKER_LISTENER, CONNECTION_QUOTA)
        held = "; ".join([*(str(item) for item in unreadable), *governed.without_pods])
        if loop.time() >= governed.resync_at_s:
            governed.ledger.look_at_all()
            governed.resync_at_s = loop.time() + self._context.resync_s(cluster)
        before = governed.ledger.lacked(), _opened(governed)
        pool = await self._context.pool(cluster)
        result = None if pool is None else await self._enforce(cluster, pool, governed, hold=bool(held))
        if result is not None and result.drift:
            await self._say_drift(cluster, result)
        unreachable = self._note_silences(pool, governed, result)
        if progress.unreachable.keys() != unreachable.keys():
            progress.unreachable = unreachable
            self._context.mark("clusters", key)
        expected = _expected(cluster, snapshot, pool)
        hiding = hiding_of_all(cluster_listeners(cluster, snapshot.listeners))
        # One that misses its listener may have it among those that cannot be read.
        mute = bool(snapshot.unreadable_of(BROKER_LISTENER))
        around = Surroundings(expected, frozenset(unreachable), hiding, mute, _strategy(cluster))
        if _all_ready(expected, pool):
            governed.starts_until_s = 0.0
        starting = loop.time() < governed.starts_until_s
        await self._mark_concerned(key, governed, around, result, _why(result) or held, before, starting=starting)
        if governed.observing or (enforces(governed) and not cluster.spec.is_external):
            self._context.mark(OBSERVED, key)
        complete = self._is_complete(governed, result, held=bool(held))
        if not complete:
            return LAGGING_RETRY
        next_look_s = min(governed.resync_at_s, governed.ledger.doubts.next_look_s(governed.ledger.silent))
        return min(max(0.0, next_look_s - loop.time()), _until_next_end_s(governed))

    async def _mark_concerned(
        self,
        key: ClusterKey,
        governed: GovernedQuotas,
        around: Surroundings,
        result: EnforcementResult | None,
        error: str,
        before: tuple[Mapping[int, frozenset[LimitKey]], Mapping[int, frozenset[str] | None]],
        *,
        starting: bool,
    ) -> None:
        """Those quotas are told anew whose status may have become another one. `before`: what brokers lacked, and which
        listeners they had open."""
        planner, plan = governed.planner, governed.planner.plan
        names = set(planner.changed_quotas)
        planner.changed_quotas.clear()
        if result is not None and result.changes:
            sent = frozenset(key for action in result.changes for key in action.keys)
            governed.news |= await _concerned(governed, tuple(names), sent)
        if around != governed.around or before[1] != _opened(governed):
            names.update(planner.quotas)
        elif differing := _differing(before[0], governed.ledger.lacked()):
            told = {key for name in names if name in plan.verdicts for key in plan.keys(name)}
            names |= await _concerned(governed, tuple(planner.quotas), differing - told)
        if error != governed.error:
            names.update(governed.unsettled)
        governed.around, governed.error = around, error
        await self._mark(key, governed, names, _wall_time(result), starting=starting)

    def _is_complete(self, governed: GovernedQuotas, result: EnforcementResult | None, *, held: bool) -> bool:
        """A broker that is on its way out is asked as well, and not counted."""
        if held:
            return result is not None and result.is_complete
        states = {} if result is None else {broker.broker_id: broker.state for broker in result.brokers}
        done = all(states.get(broker_id) is EnforcementState.ENFORCED for broker_id in governed.around.expected)
        return done and result is not None and not governed.closed_somewhere

    async def _enforce(
        self, cluster: BrokerCluster, pool: BrokerPool, governed: GovernedQuotas, *, hold: bool
    ) -> EnforcementResult:
        key = (cluster.namespace, cluster.name)
        plan = governed.planner.plan
        changed = frozenset(governed.planner.changed_keys)
        wanted = WantedLimits(
            plan.desired,
            asyncio.get_running_loop().time(),
            READ_BACK_S,
            changed=changed,
            hold=hold,
            closing=plan.closing,
            looks_at_listeners=governed.closed_somewhere,
            gives_way=lambda: self._context.is_due("quotas", key),
        )
        if cluster.spec.is_external:
            result = await self._external.enforce(cluster, pool, wanted, governed.ledger)
        else:
            result = await enforce(pool, wanted, governed.ledger)
        governed.planner.changed_keys -= changed
        return result

    async def _say_drift(self, cluster: BrokerCluster, result: EnforcementResult) -> None:
        self._context.figures.note_drift(len(result.drift))
        changed = "; ".join(str(change) for change in result.drift[:5])
        await self._context.post(
            cluster, "Warning", "QuotaDriftMended", f"limits were changed by hand on the brokers: {changed}"
        )

    def _note_silences(
        self, pool: BrokerPool | None, governed: GovernedQuotas, result: EnforcementResult | None
    ) -> Mapping[int, str]:
        """The brokers that have been silent for so long that it counts, with why."""
        now_s = asyncio.get_running_loop().time()
        up = {broker.broker_id for broker in pool.brokers if broker.up} if pool is not None else set()
        found = result.brokers if result is not None else ()
        silent = {b.broker_id: b.detail for b in found if b.state is EnforcementState.UNREACHABLE}
        for broker_id in governed.ledger.brokers.keys() - ({b.broker_id for b in found} - (silent.keys() - up)):
            # It could not be expected to answer (no address, or not ready by its pod): what it said before was another
            # life of it.
            governed.ledger.forget(broker_id)
        governed.silences = governed.silences.after({b: why for b, why in silent.items() if b in up}, now_s)
        return governed.silences.unreachable(now_s)

    async def _mark(
        self, key: ClusterKey, governed: GovernedQuotas, names: set[str], moment: datetime, *, starting: bool = False
    ) -> None:
        if not names and (starting or not governed.put_off):
            return
        await self._in_turns(governed.mark(names, self._context.first_seen, moment, starting=starting))
        self._context.mark(STATUSES, key)

    async def _in_turns(self, work: Iterator[object]) -> None:
        """Others have the event loop in between; of all clusters one goes on in a turn, for each takes its milliseconds
        and at a start all are due at once."""
        goes_on = True
        while goes_on:
            async with self._turns:
                goes_on = next(work, _END) is not _END
                await asyncio.sleep(0)


async def _concerned(governed: GovernedQuotas, names: Collection[str], keys: frozenset[LimitKey]) -> set[str]:
    """Of the named quotas those that one of the limits is for."""
    found: set[str] = set()
    plan = governed.planner.plan
    for number, name in enumerate(names if keys else (), 1):
        if name in plan.verdicts and not plan.keys(name).isdisjoint(keys):
            found.add(name)
        if number % MARKED_A_TURN == 0:
            await asyncio.sleep(0)
    return found


def _strategy(cluster: BrokerCluster) -> str:
    """Apache Kafka has its windows alone."""
    settings = cluster.spec.connection_quota
    return KAFKAS_STRATEGY if settings is None else settings.strategy


def _expected(cluster: BrokerCluster, snapshot: Snapshot, pool: BrokerPool | None) -> tuple[int, ...]:
    """Brokers that are to enforce everything: those of the spec, and those that still serve although they are to go.

    A cluster of external brokers has no count in its spec: all registered brokers are expected.
    """
    if not cluster.spec.is_external:
        return serving_brokers(plan_cluster(cluster, snapshot.listeners).broker_ids, pool)
    return tuple(broker.broker_id for broker in pool.brokers) if pool is not None else ()


def _all_ready(expected: Collection[int], pool: BrokerPool | None) -> bool:
    return pool is not None and {broker.broker_id for broker in pool.brokers if broker.up}.issuperset(expected)


def _differing(
    before: Mapping[int, frozenset[LimitKey]], after: Mapping[int, frozenset[LimitKey]]
) -> frozenset[LimitKey]:
    """What a broker lacks now and did not, or the other way round."""
    return frozenset().union(*(before[broker_id] ^ after[broker_id] for broker_id in before.keys() & after.keys()))


def _until_next_end_s(governed: GovernedQuotas) -> float:
    """Until expiresAt of some quota."""
    ends = governed.planner.next_expiry
    return float("inf") if ends is None else max(0.0, (ends - datetime.now(UTC)).total_seconds())


def _opened(governed: GovernedQuotas) -> dict[int, frozenset[str] | None]:
    return {broker_id: standing.listeners for broker_id, standing in governed.ledger.brokers.items()}


def _why(result: EnforcementResult | None) -> str:
    """What the first broker that lags, or the first refused change, says."""
    if result is None:
        return "no broker has an address yet"
    for failure in result.failures:
        return str(failure.error)
    return next((broker.detail for broker in result.lagging if broker.detail), "")


def _wall_time(result: EnforcementResult | None) -> datetime:
    """When the last broker was seen to enforce everything; now, where there is no such moment."""
    moment = datetime.now(UTC)
    if result is None or result.enforced_at_s is None:
        return moment
    return moment - timedelta(seconds=asyncio.get_running_loop().time() - result.enforced_at_s)
