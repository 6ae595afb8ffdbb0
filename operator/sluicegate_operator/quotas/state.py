"""What the quota path knows of one cluster from pass to pass: the plan, what brokers were seen to have of it, and which
quotas are to be told something else.

Soft state: lost with the operator, and found again by its first look. Nothing here does I/O.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime

from sluicegate_operator.api.connection_quota import ConnectionQuota, ConnectionQuotaStatus, Holding, Observed
from sluicegate_operator.engine.first_seen import FirstSeen
from sluicegate_operator.planning.exposure import NOT_HIDDEN, Hiding
from sluicegate_operator.planning.limits import LimitKey
from sluicegate_operator.planning.paused import PAUSED, paused_status
from sluicegate_operator.quotas.ledger import LimitLedger, Standing
from sluicegate_operator.quotas.model import Outcome, TargetKind, Verdict
from sluicegate_operator.quotas.newest_first import NewestFirst
from sluicegate_operator.quotas.plan import QuotaPlanner
from sluicegate_operator.quotas.silences import Silences
from sluicegate_operator.quotas.status import ENFORCED, Enforcement, quota_status

MARKED_A_TURN = 200
"""So many are put into the queue before others have the event loop: a millisecond or two."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all quotas of a cluster say: `expected` brokers should enforce them, `unreachable` ones have been silent for
    long. `mute`: nothing is said of those that miss their listener. `strategy`: how the brokers measure rates."""

    expected: tuple[int, ...] = ()
    unreachable: frozenset[int] = frozenset()
    hiding: Hiding = NOT_HIDDEN
    mute: bool = False
    strategy: str = ""


@dataclass(slots=True)
class GovernedQuotas:
    """Of one cluster. `error`: why brokers lag, where nothing is known of a single limit. `resync_at_s`: when all is
    looked at again, in seconds of the event loop's clock. `starts_until_s`: until then brokers that are not ready are
    only just starting; 0 once all have been."""

    planner: QuotaPlanner = field(default_factory=QuotaPlanner)
    ledger: LimitLedger = field(default_factory=LimitLedger)
    silences: Silences = field(default_factory=Silences)
    around: Surroundings = field(default_factory=Surroundings)
    error: str = ""
    resync_at_s: float = 0.0
    cluster_uid: str = ""
    paused: bool = False
    """Whether the cluster is: no broker is asked then, and each status says so."""
    starts_until_s: float = 0.0
    waiting: NewestFirst = field(default_factory=NewestFirst)
    states: dict[str, str] = field(default_factory=dict)
    """By quota, the reason of its condition Enforced; Paused if it has no such condition because of a pause."""
    news: set[str] = field(default_factory=set)
    """Quotas whose limits were sent to brokers and that have not been told of since."""
    observed: dict[str, Observed] = field(default_factory=dict)
    """By quota with mode Observe: what brokers have counted."""
    holding: dict[str, Holding | None] = field(default_factory=dict)
    """By quota that is enforced: what it holds back now, where that differs from its status."""
    host_network_pods: dict[str, int] = field(default_factory=dict)
    """By quota on a workload: pods that it selects, and which have the address of their node."""
    pods_unseen: str = ""
    """Why pods that come or go have not been seen for some time; empty while they are."""
    put_off: set[str] = field(default_factory=set)
    """Quotas without a status, which get none while brokers start: nearly all of them would be written twice."""
    _enforced_at: dict[str, datetime] = field(default_factory=dict)

    def mark(
        self, names: Iterable[str], first_seen: FirstSeen, moment: datetime, *, starting: bool = False
    ) -> Iterator[None]:
        """Queue the quotas for a new status, the newest first, in steps that let the event loop run in between.

        `moment` is when the brokers were asked; `starting`: some of them are still starting.
        """
        names = set(names)
        if not starting:
            names |= self.put_off
            self.put_off.clear()
        for number, name in enumerate(names, 1):
            quota = self.planner.quotas.get(name)
            if quota is not None:
                self._enforced_at[name] = moment
                if starting and self._waits_for_brokers(quota):
                    self.put_off.add(name)
                else:
                    self.put_off.discard(name)
                    self.waiting.add(name, _rank(quota, first_seen.of(quota)))
            if number % MARKED_A_TURN == 0:
                yield

    def keep_to(self, cluster_uid: str) -> None:
        """Brokers of another cluster that had the name before have said nothing of this one's."""
        if self.cluster_uid != cluster_uid:
            self.forget_brokers()
            self.cluster_uid = cluster_uid

    def forget_brokers(self) -> None:
        self.ledger, self.silences, self.around = LimitLedger(), Silences(), Surroundings()

    def _waits_for_brokers(self, quota: ConnectionQuota) -> bool:
        """And for nothing else, and has never been told of."""
        verdict = self.planner.plan.verdicts.get(quota.name)
        accepted = verdict is not None and verdict.outcome is Outcome.ACCEPTED and verdict.target_found
        return accepted and not quota.status.conditions and bool(self.lagging(quota.name))

    def forget_gone(self) -> None:
        for name in self.states.keys() - self.planner.quotas.keys():
            del self.states[name]
            self._enforced_at.pop(name, None)
            self.observed.pop(name, None)
            self.holding.pop(name, None)
            self.host_network_pods.pop(name, None)
            self.news.discard(name)
        self.put_off &= self.planner.quotas.keys()

    def lagging(self, name: str) -> tuple[int, ...]:
        """The expected brokers that do not enforce the quota, or were not seen to."""
        verdict, keys = self.planner.plan.verdicts[name], self.planner.plan.keys(name)
        return tuple(b for b in self.around.expected if not self._enforces(b, verdict, keys))

    def _enforces(self, broker_id: int, verdict: Verdict, keys: Set[LimitKey]) -> bool:
        standing = self.ledger.brokers.get(broker_id)
        if standing is None or broker_id in self.around.unreachable or not _has_open(standing, verdict):
            return False
        return keys.isdisjoint(standing.lacks) and keys.isdisjoint(self.ledger.kept_back)

    @property
    def observing(self) -> list[str]:
        """Quotas with mode Observe that brokers have."""
        plan = self.planner.plan
        return [name for name in plan.groups if self.planner.quotas[name].spec.is_observing]

    def observed_of(self, name: str) -> Observed | None:
        return self.observed.get(name) or self.planner.quotas[name].status.observed

    @property
    def without_pods(self) -> list[str]:
        """Quotas whose pods are not known: while there are any, what brokers have may be what they ask for."""
        verdicts = self.planner.plan.verdicts.values()
        unknown = [verdict.quota for verdict in verdicts if verdict.outcome is Outcome.PODS_UNKNOWN]
        return [f"the pods of ConnectionQuota {name} are not known yet" for name in unknown[:1]]

    @property
    def closed_somewhere(self) -> bool:
        """Whether a listener that has a quota is not open on a broker that was asked."""
        plan = self.planner.plan
        listeners = {target.name for target in plan.limits if target.kind is TargetKind.LISTENER}
        opened = [standing.listeners for standing in self.ledger.brokers.values() if standing.listeners is not None]
        return any(not listeners <= each for each in opened)

    def status(self, name: str, learned_at: datetime | None, now: datetime) -> ConnectionQuotaStatus | None:
        """The status that the quota should have now; None if it needs no write.

        It is None, too, until brokers have been asked about the quota's present spec: then the quota is marked again.
        """
        plan, quota = self.planner.plan, self.planner.quotas.get(name)
        if quota is not None and self.paused:
            status = paused_status(quota, quota.status, now, {"target": quota.spec.target.describe()})
            found = status.condition(ENFORCED)
            self.states[name] = PAUSED if found is None else found.reason
            return status
        if (
            quota is None
            or not self.planner.is_settled(name)
            or (self.around.mute and not plan.verdicts[name].target_found)
        ):
            return None
        status = quota_status(quota, plan, self._enforcement(name, learned_at), now)
        found = status.condition(ENFORCED)
        self.states[name] = found.reason if found is not None else ""
        return status

    def _enforcement(self, name: str, learned_at: datetime | None) -> Enforcement:
        plan = self.planner.plan
        verdict = plan.verdicts[name]
        unseen = self.pods_unseen if verdict.target.kind is TargetKind.WORKLOAD else ""
        if not verdict.target_found and not verdict.has_expired:
            return Enforcement(learned_at=learned_at, hiding=self.around.hiding, pods_unseen=unseen)
        lagging = self.lagging(name)
        refused = next((self.ledger.refused[key] for key in plan.keys(name) if key in self.ledger.refused), "")
        closed = any(not _has_open(standing, verdict) for standing in self.ledger.brokers.values())
        error = refused or self.error
        if closed:
            error = f"they do not have listener {verdict.target.name} open"
        return Enforcement(
            self.around.expected,
            lagging,
            learned_at,
            error if lagging else "",
            refused=bool(refused and lagging) and not closed,
            unreachable=self.around.unreachable & set(lagging),
            enforced_at=self._enforced_at.get(name),
            hiding=self.around.hiding,
            observed=self.observed.get(name),
            holding=holding_of(self, name),
            strategy=self.around.strategy,
            host_network_pods=self.host_network_pods.get(name, 0),
            pods_unseen=unseen,
        )

    def note_written(self, before: ConnectionQuota, after: ConnectionQuota) -> None:
        """Keep the status that was written as that of the quota, until the watch brings the object again."""
        if self.planner.quotas.get(before.name) is before:
            self.planner.quotas[before.name] = after
        if before.name in self.holding and self.holding[before.name] == after.status.holding:
            del self.holding[before.name]

    @property
    def unsettled(self) -> list[str]:
        """Quotas that say that brokers lag."""
        settled: Mapping[str, None] = dict.fromkeys(("Enforced", *Outcome))
        return [name for name, reason in self.states.items() if reason not in settled]


def enforces(governed: GovernedQuotas) -> bool:
    """Whether brokers have limits that hold connections back."""
    # A quota that observes has a target of its own.
    return len(governed.planner.plan.limits) > len(governed.observing)


def holding_of(governed: GovernedQuotas, name: str) -> Holding | None:
    """What the status of the quota says, or is about to say."""
    if name in governed.holding:
        return governed.holding[name]
    return governed.planner.quotas[name].status.holding


def _has_open(standing: Standing, verdict: Verdict) -> bool:
    target = verdict.target
    return target.kind is not TargetKind.LISTENER or standing.listeners is None or target.name in standing.listeners


def _rank(quota: ConnectionQuota, learned_at: datetime | None) -> tuple[bool, float]:
    """Those whose newest spec has not been told of come first, the newest of them before the others."""
    told = quota.status.observed_generation == quota.metadata.generation
    return told, -learned_at.timestamp() if learned_at else 0.0
