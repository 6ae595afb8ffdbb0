"""The quota path's state of one cluster between passes: its quotas, the plan, and the limits that brokers lack.

It is lost when the operator stops, and the first pass rebuilds it. No I/O.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.connection_quota import (
    ConnectionQuota,
    ConnectionQuotaStatus,
)
from sluicegate_operator.engine.context.first_seen import FirstSeen
from sluicegate_operator.planning.limits.limits import LimitKey
from sluicegate_operator.planning.limits.workloads import Members
from sluicegate_operator.planning.status.paused import PAUSED, paused_status
from sluicegate_operator.quotas.model.targets import QuotaName, TargetKind
from sluicegate_operator.quotas.model.verdicts import QuotaOutcome, Verdict
from sluicegate_operator.quotas.plan import COMPARED_PER_SLICE, QuotaPlan, Ruling, Scope, is_governed, plan_in_steps
from sluicegate_operator.quotas.state.known import Assessment, DueStatuses, KnownBrokers, KnownQuota, PassTimes
from sluicegate_operator.quotas.state.ledger import Standing
from sluicegate_operator.quotas.status import ENFORCED, Enforcement, quota_status

ASSESSED_PER_SLICE = 500
"""Number of quotas in one step: a few milliseconds."""


@dataclass(slots=True)
class GovernedQuotas:
    """Everything that the operator knows of one cluster's ConnectionQuotas and of their enforcement."""

    quotas: dict[QuotaName, KnownQuota] = field(default_factory=dict)
    plan: QuotaPlan = field(default_factory=QuotaPlan)
    unsent: frozenset[LimitKey] = frozenset()
    """Limits that have changed since they were sent to brokers."""
    brokers: KnownBrokers = field(default_factory=KnownBrokers)
    statuses: DueStatuses = field(default_factory=DueStatuses)
    times: PassTimes = field(default_factory=PassTimes)
    paused: bool = False
    """Whether the cluster is paused: then the pass asks no broker, and each status has the reason Paused."""
    _shared_enforcement: Enforcement = field(default_factory=Enforcement)
    """The enforcement of all quotas without facts of their own. It is one object, so that comparing it is cheap."""

    def replan(
        self,
        cluster: BrokerCluster | None,
        scope: Scope,
        quotas: Iterable[ConnectionQuota],
        selected: Mapping[QuotaName, Members],
        now: datetime,
    ) -> Iterator[None]:
        """Decide again, with pauses, which limits the quotas of the cluster result in.

        `selected` has the pods of quotas whose selection changed.
        """
        yield from self._see(cluster, quotas)
        for known in [self.quotas[name] for name in selected.keys() & self.quotas.keys()]:
            members = selected[known.quota.name]
            known.host_network_pods = members.host_network_pods
            if known.claim.target.kind is TargetKind.WORKLOAD and known.claim.addresses != members.addresses:
                known.claim = replace(known.claim, addresses=members.addresses)
        claims = [known.claim for known in self.quotas.values()]
        self.plan = yield from plan_in_steps(scope, claims, now, self.plan)
        self.unsent |= self.plan.changed

    def _see(self, cluster: BrokerCluster | None, quotas: Iterable[ConnectionQuota]) -> Generator[None, None, None]:
        there: set[QuotaName] = set()
        looked = made = 0
        for quota in quotas:
            looked += 1
            known = self.quotas.get(quota.name)
            if known is None or known.quota is not quota:
                if not is_governed(quota, cluster):
                    continue
                if known is None or not known.is_of(quota):
                    self.quotas[quota.name] = KnownQuota.of(quota, known)
                    made += 1
                else:
                    known.see(quota)
            there.add(quota.name)
            if looked >= COMPARED_PER_SLICE or made >= ASSESSED_PER_SLICE:
                looked = made = 0
                yield
        for name in self.quotas.keys() - there:
            del self.quotas[name]
            self.statuses.states.pop(name, None)

    def keep_to(self, cluster_uid: str) -> None:
        """Forget the answers and counts of brokers if they are of an earlier cluster with the same name."""
        if self.brokers.cluster_uid != cluster_uid:
            if self.brokers.cluster_uid:
                for known in self.quotas.values():
                    known.observed = known.holding = known.adaptive = known.shares = None
            self.brokers = KnownBrokers(cluster_uid)

    def forget_brokers(self) -> None:
        self.brokers = KnownBrokers(self.brokers.cluster_uid)

    def assess(
        self,
        first_seen: FirstSeen,
        moment: datetime,
        *,
        sent: frozenset[LimitKey] = frozenset(),
        starting: bool = False,
        names: Iterable[QuotaName] | None = None,
    ) -> Iterator[None]:
        """Determine how far brokers enforce each quota, and queue the quotas whose status has to change, newest first.

        `moment` is when brokers were asked, and `sent` are the limits that were sent to them. `starting`: some brokers
        still start, so a quota without a status that waits for them gets none yet; nearly all would be written twice.
        `names`: only these quotas are assessed, and only if brokers were asked for their present spec.
        """
        lacked = frozenset(self.brokers.ledger.refused).union(*self.brokers.ledger.lacked().values())
        of_most = self._enforcement_of_most()
        if of_most != self._shared_enforcement:
            self._shared_enforcement = of_most
        for number, name in enumerate(list(self.quotas if names is None else names), 1):
            if number % ASSESSED_PER_SLICE == 0:
                yield
            known = self.quotas.get(name)
            if known is None or (names is not None and not self._is_settled(known)):
                continue
            if not lacked and self._is_as_before(known):
                continue
            found, before = self._assessed(known, lacked), known.assessment
            known.assessment = found
            if found is None:
                continue
            if found != before:
                known.assessed_at = moment
                if sent and (before is None or before.ruling is not found.ruling):
                    known.was_sent = known.was_sent or not self.plan.keys(name).isdisjoint(sent)
            if found == known.written:
                known.written = found
            elif not (starting and _waits_for_brokers(known)):
                self.statuses.waiting.add(name, _rank(known.quota, first_seen.of(known.quota)))

    def _is_as_before(self, known: KnownQuota) -> bool:
        """Cheaply find nearly all quotas whose status is up to date."""
        if self.paused or self.brokers.facts.mute or known.has_figures or known.assessment is None:
            return False
        as_most = known.assessment.enforcement is self._shared_enforcement
        return as_most and known.assessment is known.written and self._is_settled(known)

    def _is_settled(self, known: KnownQuota) -> bool:
        """Return whether brokers were asked for the quota as it is planned now."""
        found = known.assessment
        return found is not None and found.claim is known.claim and found.ruling is self.plan.of.get(known.quota.name)

    def _assessed(self, known: KnownQuota, lacked: frozenset[LimitKey]) -> Assessment | None:
        """Return the assessment of a quota; None if its status stays unchanged for now."""
        name, ruling = known.quota.name, self.plan.of.get(known.quota.name)
        if self.paused:
            return Assessment(known.claim, None, None)
        if ruling is None:
            return None
        verdict = ruling.verdicts[name]
        if self.brokers.facts.mute and not verdict.target_found:
            return None
        return Assessment(known.claim, ruling, self._enforcement(known, ruling, verdict, lacked))

    def _enforcement(
        self, known: KnownQuota, ruling: Ruling, verdict: Verdict, lacked: frozenset[LimitKey]
    ) -> Enforcement:
        """Return the enforcement of a quota. `lacked` has the limits that some broker lacks or refuses."""
        facts, target = self.brokers.facts, verdict.target
        unseen = facts.pods_unseen if target.kind is TargetKind.WORKLOAD else ""
        if not verdict.target_found and not verdict.has_expired:
            return Enforcement(hiding=facts.hiding, pods_unseen=unseen)
        own = target.kind in (TargetKind.LISTENER, TargetKind.WORKLOAD) or known.has_figures
        keys = ruling.keys(known.quota.name) if lacked or own else frozenset()
        if not own and keys.isdisjoint(lacked):
            return self._shared_enforcement
        standings = self.brokers.ledger.brokers
        lagging = tuple(
            broker_id
            for broker_id in facts.expected
            if broker_id in self._shared_enforcement.lagging
            or not _has_open(standings[broker_id], verdict)
            or not keys.isdisjoint(standings[broker_id].lacks)
            or not keys.isdisjoint(self.brokers.ledger.kept)
        )
        refused = next((why for key, why in self.brokers.ledger.refused.items() if key in keys), "")
        closed = any(not _has_open(standing, verdict) for standing in standings.values())
        error = f"listener {target.name} is not open on these brokers" if closed else refused or facts.error
        return replace(
            self._shared_enforcement,
            lagging=lagging,
            error=error if lagging else "",
            refused=bool(refused and lagging) and not closed,
            unreachable=facts.unreachable & set(lagging),
            observed=known.observed,
            holding=known.holding,
            adaptive=known.adaptive,
            shares=known.shares,
            host_network_pods=known.host_network_pods,
            pods_unseen=unseen,
        )

    def _enforcement_of_most(self) -> Enforcement:
        """Return the enforcement of a quota whose limits no broker is known to lack."""
        facts, ledger = self.brokers.facts, self.brokers.ledger
        lagging = tuple(b for b in facts.expected if b not in ledger.brokers or b in facts.unreachable)
        return Enforcement(
            facts.expected,
            lagging,
            error=facts.error if lagging else "",
            unreachable=facts.unreachable & set(lagging),
            hiding=facts.hiding,
            strategy=facts.strategy,
        )

    def status(self, name: QuotaName, learned_at: datetime | None, now: datetime) -> ConnectionQuotaStatus | None:
        """Return the status that the quota should have now.

        None while brokers have not been asked for the quota's present spec: the pass that asks them queues the quota
        again.
        """
        known = self.quotas.get(name)
        if known is None or known.assessment is None:
            return None
        quota, ruling, enforcement = known.quota, known.assessment.ruling, known.assessment.enforcement
        if self.paused:
            paused = paused_status(quota, quota.status, now, {"target": quota.spec.target.describe()})
            condition = paused.condition(ENFORCED)
            self.statuses.states[name] = PAUSED if condition is None else condition.reason
            return paused
        if ruling is None or enforcement is None or not self._is_settled(known):
            return None
        enforcement = replace(enforcement, learned_at=learned_at, enforced_at=known.assessed_at)
        status = quota_status(quota, ruling, enforcement, now)
        found = status.condition(ENFORCED)
        self.statuses.states[name] = found.reason if found is not None else ""
        return status

    def note_written(self, before: ConnectionQuota, after: ConnectionQuota) -> None:
        """Keep the status that was just written to a quota, until the watch reports the object with it."""
        known = self.quotas.get(before.name)
        if known is not None and known.quota is before:
            known.quota = after

    @property
    def observing(self) -> list[QuotaName]:
        """Names of the quotas with mode Observe whose limits brokers have."""
        return [
            name
            for at in self.plan.read_often.observed
            for name in self.plan.rulings[at].members
            if name in self.quotas
        ]

    @property
    def enforces(self) -> bool:
        """Whether brokers have limits of any quota that throttle connections."""
        # A quota that observes has its own target.
        rulings = self.plan.rulings.values()
        return any(one.limits is not None and not one.claims[0].quota.spec.is_observing for one in rulings)

    @property
    def without_pods(self) -> list[QuotaName]:
        """Names of the quotas whose pods are not known. Brokers may have the connection group of each from before."""
        rulings = [self.plan.rulings[at] for at in self.plan.read_often.workloads]
        return [v.quota for one in rulings for v in one.verdicts.values() if v.outcome is QuotaOutcome.PODS_UNKNOWN]

    @property
    def closed_somewhere(self) -> bool:
        """Whether a listener that has a quota is not open on a broker that was asked."""
        standings = self.brokers.ledger.brokers.values()
        opened = [standing.listeners for standing in standings if standing.listeners is not None]
        listeners = {at.name for at in self.plan.read_often.listeners if self.plan.rulings[at].limits is not None}
        return any(not listeners <= each for each in opened)


def _waits_for_brokers(known: KnownQuota) -> bool:
    """Return whether a quota without a status waits only for brokers."""
    found = known.assessment
    if found is None or found.ruling is None or found.enforcement is None or known.quota.status.conditions:
        return False
    return found.ruling.verdicts[known.quota.name].outcome is QuotaOutcome.ACCEPTED and bool(found.enforcement.lagging)


def _has_open(standing: Standing, verdict: Verdict) -> bool:
    target = verdict.target
    return target.kind is not TargetKind.LISTENER or standing.listeners is None or target.name in standing.listeners


def _rank(quota: ConnectionQuota, learned_at: datetime | None) -> tuple[bool, float]:
    """Return the sort key of a quota: first quotas whose status is about an older spec, and of these the newest."""
    told = quota.status.observed_generation == quota.metadata.generation
    return told, -learned_at.timestamp() if learned_at else 0.0
