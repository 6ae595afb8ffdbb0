"""Plans all ConnectionQuotas of one cluster: a pure function of their specs, of pods and of the clock.

Quotas affect each other only if they have the same target. So a target whose claims are unchanged keeps its ruling. The
cost of a plan is that of its changes, and the plan equals one that was made from scratch.

`plan_in_steps` is a generator, so that other tasks run between two steps.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.connection_quota import AFTER_ALL, ConnectionQuota
from sluicegate_operator.planning.layout.cluster_layout import cluster_listeners
from sluicegate_operator.planning.limits.connection_groups import ANYBODY
from sluicegate_operator.planning.limits.limits import COUNT_PER_IP_OVERRIDES, DesiredLimits, LimitKey, QuotaKey
from sluicegate_operator.planning.status.seniority import Seniority, seniority
from sluicegate_operator.quotas.model.quota_keys import ended_keys, group_of_quota, limit_keys, limit_values, overrides
from sluicegate_operator.quotas.model.strictest import limits_of, winners_of
from sluicegate_operator.quotas.model.targets import Limits, QuotaName, TargetKey, TargetKind
from sluicegate_operator.quotas.model.verdicts import (
    Verdict,
    cluster_missing,
    expired,
    listener_missing,
    no_clients,
    pods_unknown,
    selects_elsewhere,
    too_many_addresses,
    unsupported,
    verdict_of,
)

COMPARED_PER_SLICE = 1000
PLANNED_PER_SLICE = 100
"""Number of quotas in one step: a few milliseconds."""
BEFORE_ALL = datetime.min.replace(tzinfo=UTC)
_NOTHING: Mapping[Any, Any] = MappingProxyType({})
_NO_QUOTAS = frozenset[QuotaName]()
_MakeVerdict = Callable[[ConnectionQuota, TargetKey], Verdict]


@dataclass(frozen=True, slots=True)
class Scope:
    """Facts about a cluster on which the decisions about all of its ConnectionQuotas depend.

    - `there`: whether the BrokerCluster exists.
    - `exclusive`: whether the operator alone sets limits on the brokers; if not, they are brokers of Apache Kafka.
    - `known`: names of its listeners; None if they are not known.
    - `in_all_namespaces`: whether quotas can select pods of other namespaces.
    """

    there: bool = False
    exclusive: bool = True
    known: frozenset[str] | None = None
    in_all_namespaces: bool = True

    @classmethod
    def of(
        cls, cluster: BrokerCluster | None, listeners: Sequence[BrokerListener], *, in_all_namespaces: bool = True
    ) -> "Scope":
        if cluster is None:
            return cls(in_all_namespaces=in_all_namespaces)
        bundled = cluster.spec.runtime == "Bundled"
        known = frozenset(one.spec.name for one in cluster_listeners(cluster, listeners)) if bundled else None
        return cls(True, bundled, known, in_all_namespaces)


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """The limits that one ConnectionQuota asks for, with their target and the time of their end.

    Another spec makes another claim, and so do other pods that the quota selects. `addresses`: those of the pods, each
    with the number of its pod; None if they are not known.
    """

    quota: ConnectionQuota
    target: TargetKey
    expires: datetime = AFTER_ALL
    addresses: Mapping[str, float] | None = None

    @classmethod
    def of(cls, quota: ConnectionQuota, addresses: Mapping[str, float] | None = None) -> "Claim":
        return cls(quota, TargetKey.of_quota(quota), quota.spec.expires, addresses)


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision which limits are enforced on one target of ConnectionQuotas.

    It follows from `claims`, `ended`, `room` and the scope alone.

    - `claims`: the claims on the target, oldest first.
    - `ended`: names of quotas that have expired.
    - `room`: whether the count of this address fits among those of others.
    - `limits`: the enforced limits; None if there are none.
    - `groups`: connection groups by quota; `members`: the number of addresses and ranges in each.
    - `closing`: limits of a listener without BrokerListener, which stay until no broker has its port open.
    """

    claims: tuple[Claim, ...] = field(compare=False)
    ended: frozenset[QuotaName] = _NO_QUOTAS
    room: bool = True
    limits: Limits | None = None
    verdicts: Mapping[QuotaName, Verdict] = field(default_factory=lambda: _NOTHING)
    groups: Mapping[QuotaName, Mapping[QuotaKey, float]] = field(default_factory=lambda: _NOTHING)
    members: Mapping[QuotaName, int] = field(default_factory=lambda: _NOTHING)
    closing: Limits | None = None
    count: tuple[Seniority, int] | None = None

    def keys(self, quota: QuotaName) -> AbstractSet[LimitKey]:
        """Return the limits that all brokers must have with the values of this ruling before the quota is in force.

        If the quota has expired, they are the limits that brokers must have lifted.
        """
        verdict = self.verdicts[quota]
        if verdict.has_expired:
            return ended_keys(next(one.quota for one in self.claims if one.quota.name == quota), verdict.target)
        if verdict.target.is_group:
            return self.groups.get(quota, _NOTHING).keys()
        return frozenset(limit_keys(verdict.target, self.limits) if self.limits and verdict.target_found else ())

    @property
    def values(self) -> Mapping[str, Mapping[Any, str | float]]:
        """The limits that brokers must have for the target, by quota if each quota has a connection group."""
        if self.limits is None or self.claims[0].target.is_group:
            return self.groups
        return {"": limit_values(self.claims[0].target, self.limits)}


_NO_RULING = Ruling(())


@dataclass(frozen=True, slots=True)
class ReadOften:
    """The few targets whose decisions each pass reads: listeners, workloads, and targets of quotas that observe."""

    listeners: list[TargetKey] = field(default_factory=list)
    workloads: list[TargetKey] = field(default_factory=list)
    observed: list[TargetKey] = field(default_factory=list)

    def add(self, target: TargetKey, claim: Claim) -> None:
        """Add a target with one of the claims on it.

        A quota that observes has its own target.
        """
        if target.kind is TargetKind.LISTENER:
            self.listeners.append(target)
        elif target.kind is TargetKind.WORKLOAD:
            self.workloads.append(target)
        if claim.quota.spec.is_observing:
            self.observed.append(target)


@dataclass(frozen=True, slots=True)
class QuotaPlan:
    """The limits that a cluster's ConnectionQuotas result in, with the decision on each quota.

    `desired`: all limits of the cluster. `of`: the ruling on each quota. `changed`: limits that differ from the
    previous plan. No limit ends between `ended_last` and `next_expiry`.
    """

    desired: DesiredLimits = field(default_factory=DesiredLimits)
    rulings: Mapping[TargetKey, Ruling] = field(default_factory=dict)
    of: Mapping[QuotaName, Ruling] = field(default_factory=dict, compare=False)
    scope: Scope | None = None
    next_expiry: datetime = AFTER_ALL
    ended_last: datetime = BEFORE_ALL
    claims: tuple[Claim, ...] = field(default=(), compare=False)
    changed: frozenset[LimitKey] = field(default=frozenset(), compare=False)
    read_often: ReadOften = field(default_factory=ReadOften, compare=False)

    @property
    def limits(self) -> dict[TargetKey, Limits]:
        """The limits of all quotas together, by target."""
        return {target: one.limits for target, one in self.rulings.items() if one.limits is not None}

    @property
    def verdicts(self) -> dict[QuotaName, Verdict]:
        """The verdict on each quota: whether its limits are enforced."""
        return {name: verdict for one in self.rulings.values() for name, verdict in one.verdicts.items()}

    @property
    def closing(self) -> dict[TargetKey, Limits]:
        """Limits of listeners without BrokerListener, which stay until no broker has the port open, by target."""
        return {at: limits for at in self.read_often.listeners if (limits := self.rulings[at].closing) is not None}

    @property
    def members(self) -> dict[QuotaName, int]:
        """The number of addresses and ranges in the connection group of each quota."""
        return {name: number for one in self.rulings.values() for name, number in one.members.items()}

    def keys(self, quota: QuotaName) -> AbstractSet[LimitKey]:
        """Return the limits that all brokers must have with the values of this plan before the quota is in force."""
        return self.of[quota].keys(quota)

    def quotas_on(self, target: TargetKey) -> list[QuotaName]:
        """Return the names of the quotas that limit the target, the oldest first."""
        ruling = self.rulings.get(target)
        return [claim.quota.name for claim in ruling.claims] if ruling is not None else []


NOTHING_PLANNED = QuotaPlan()


def plan_quotas(
    cluster: BrokerCluster | None,
    listeners: Sequence[BrokerListener],
    quotas: Iterable[ConnectionQuota],
    now: datetime = BEFORE_ALL,
) -> QuotaPlan:
    """Return the limits that these ConnectionQuotas result in, computed without a pause.

    It is for callers without an event loop to share. Without `now` no limit has ended.
    """
    claims = [Claim.of(quota) for quota in quotas if is_governed(quota, cluster)]
    return plan_claims(Scope.of(cluster, listeners), claims, now)


def plan_claims(scope: Scope, claims: Iterable[Claim], now: datetime) -> QuotaPlan:
    """Return the limits that these claims result in, computed without a pause."""
    steps = plan_in_steps(scope, claims, now)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            planned: QuotaPlan = end.value
            return planned


def is_governed(quota: ConnectionQuota, cluster: BrokerCluster | None) -> bool:
    """Return whether the operator enforces the quota: it is not being deleted and names the cluster if there is one."""
    if quota.metadata.deletion_timestamp is not None:
        return False
    return cluster is None or (quota.spec.cluster_ref.name, quota.namespace) == (cluster.name, cluster.namespace)


def plan_in_steps(
    scope: Scope, claims: Iterable[Claim], now: datetime, before: QuotaPlan = NOTHING_PLANNED
) -> Generator[None, None, QuotaPlan]:
    """Return the limits that all claims result in, computed with a pause after every few quotas.

    `now` ends limits. `before` is the plan that is in force; its rulings are kept for unchanged targets.
    """
    claims = tuple(claims)
    same_scope = scope == before.scope
    if same_scope and claims == before.claims and before.ended_last <= now < before.next_expiry:
        return replace(before, changed=frozenset())
    rivals: dict[TargetKey, list[Claim]] = {}
    ended_last, next_expiry = BEFORE_ALL, AFTER_ALL
    for number, claim in enumerate(claims, 1):
        rivals.setdefault(claim.target, []).append(claim)
        if claim.expires <= now:
            ended_last = max(ended_last, claim.expires)
        else:
            next_expiry = min(next_expiry, claim.expires)
        if number % COMPARED_PER_SLICE == 0:
            yield
    rulings: dict[TargetKey, Ruling] = {}
    others: dict[TargetKey, Ruling | None] = {}
    read_often = ReadOften()
    compared = judged = 0
    for target, found in rivals.items():
        read_often.add(target, found[0])
        known = before.rulings.get(target)
        room = known.room if known is not None else True
        rulings[target] = one = _ruling(target, found, scope, now, room, known if same_scope else None)
        if one is not known:
            others[target] = known
            judged += len(found)
        compared += 1
        if compared >= COMPARED_PER_SLICE or judged >= PLANNED_PER_SLICE:
            compared = judged = 0
            yield
    counts = {at.name: one.count for at, one in rulings.items() if one.count is not None}
    value, without_room = overrides(counts)
    for target, one in [(at, one) for at, one in rulings.items() if one.count is not None]:
        if one.room == (target.name in without_room):
            others.setdefault(target, before.rulings.get(target))
            rulings[target] = _ruling(target, one.claims, scope, now, not one.room, None)
    others |= {target: one for target, one in before.rulings.items() if target not in rulings}
    pairs = [(known or _NO_RULING, rulings.get(target, _NO_RULING)) for target, known in others.items()]
    yield
    desired, changed = yield from _merged(before.desired, pairs, value, exclusive=scope.exclusive)
    of = dict(before.of)
    for name in [name for former, _ in pairs for name in former.verdicts]:
        of.pop(name, None)
    for _, ruling in pairs:
        of |= dict.fromkeys(ruling.verdicts, ruling)
    return QuotaPlan(desired, rulings, of, scope, next_expiry, ended_last, claims, changed, read_often)


def _merged(
    before: DesiredLimits, pairs: Iterable[tuple[Ruling, Ruling]], counts: str, *, exclusive: bool
) -> Generator[None, None, tuple[DesiredLimits, frozenset[LimitKey]]]:
    """Return a copy of `before` with the changes of other rulings, and the limits that differ.

    `pairs` has these rulings, each after the previous one on the same target. `counts`: the value with the counts of
    all addresses.
    """
    wanted: dict[LimitKey, str | float | None] = {COUNT_PER_IP_OVERRIDES: counts or None}
    for number, (former, ruling) in enumerate(pairs, 1):
        if number % COMPARED_PER_SLICE == 0:
            yield
        old, new = former.values, ruling.values
        for name in {*old, *new}:
            for key, value in _differences(old.get(name, _NOTHING), new.get(name, _NOTHING)):
                # A quota may have moved from one of these targets to another, and then its limits are still wanted.
                wanted[key] = wanted.get(key) if value is None else value
    configs, quotas = dict(before.configs), dict(before.quotas)
    changed = []
    for number, (key, value) in enumerate(wanted.items(), 1):
        if number % COMPARED_PER_SLICE == 0:
            yield
        limits: dict[Any, Any] = configs if isinstance(key, str) else quotas
        if limits.get(key) != value:
            changed.append(key)
            if value is None:
                del limits[key]
            else:
                limits[key] = value
    return DesiredLimits(configs, quotas, exclusive), frozenset(changed)


def _differences(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the items that differ in `after`; the value is None for keys that are gone."""
    yield from ((key, value) for key, value in after.items() if before.get(key) != value)
    # set() reuses the hashes of a dictionary's keys, so this is fast even for thousands of addresses.
    yield from ((key, None) for key in set(before).difference(after))


def _ruling(
    target: TargetKey,
    claims: Sequence[Claim],
    scope: Scope,
    now: datetime,
    room: bool,
    known: Ruling | None,
) -> Ruling:
    """Return the ruling on a target.

    `known` is the previous ruling in the same scope, which is returned if it follows from the same claims.
    """
    if len(claims) > 1:
        claims = sorted(claims, key=lambda claim: seniority(claim.quota))
    ended = frozenset(claim.quota.name for claim in claims if claim.expires <= now) or _NO_QUOTAS
    claims = tuple(claims)
    if known is not None and known.claims == claims and known.ended == ended:
        return known
    return _judged(Ruling(claims, ended, room), target, scope)


def _judged(asked: Ruling, target: TargetKey, scope: Scope) -> Ruling:
    """Return `asked` completed with everything that follows from it."""
    missing = _missing(target, scope)
    quotas = [claim.quota for claim in asked.claims]
    if missing is not None:
        lasting = [one for one in quotas if one.name not in asked.ended]
        closing = limits_of(lasting, winners_of(lasting)) if lasting and missing is listener_missing else None
        return replace(asked, verdicts={one.name: missing(one, target) for one in quotas}, closing=closing)
    verdicts = {claim.quota.name: _exempt(claim, asked.ended, scope) for claim in asked.claims}
    limiting = [claim for claim in asked.claims if verdicts[claim.quota.name] is None]
    decided = {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    if not limiting:
        return replace(asked, verdicts=decided)
    rivals = [claim.quota for claim in limiting]
    winners = winners_of(rivals)
    limits, count = limits_of(rivals, winners), None
    decided |= {one.quota.name: verdict_of(one.quota, target, winners, limits) for one in limiting}
    if target.kind is TargetKind.IP and limits.count is not None:
        counting = [claim.quota for claim in limiting if claim.quota.spec.max_connections is not None]
        count = seniority(counting[0]), limits.count
        if not asked.room:
            limits = replace(limits, count=None)
            decided |= {one.name: too_many_addresses(decided[one.name]) for one in counting}
    if not target.is_group:
        return replace(asked, limits=limits, verdicts=decided, count=count)
    groups: dict[QuotaName, Mapping[QuotaKey, float]] = {}
    members: dict[QuotaName, int] = {}
    for claim in limiting:
        addresses = {target.name: ANYBODY} if claim.addresses is None else claim.addresses
        if group := group_of_quota(claim.quota, winners, addresses):
            groups[claim.quota.name], members[claim.quota.name] = group, len(addresses)
    return replace(asked, limits=limits, verdicts=decided, groups=groups, members=members)


def _missing(target: TargetKey, scope: Scope) -> _MakeVerdict | None:
    """Return the function that makes the verdicts if the target does not exist; None if it exists."""
    kind, known = target.kind, scope.known
    if not scope.there:
        return cluster_missing
    if kind is TargetKind.LISTENER and known is not None and target.name not in known:
        return listener_missing
    if kind in (TargetKind.BROKER, TargetKind.DEFAULT_IP) and known is not None and not known:
        return no_clients
    return None


def _exempt(claim: Claim, ended: frozenset[QuotaName], scope: Scope) -> Verdict | None:
    """Return why the quota limits nothing: it has expired, or brokers do not support it. None if it limits."""
    quota, target = claim.quota, claim.target
    if quota.name in ended:
        return expired(quota, target)
    found = None if scope.exclusive else unsupported(quota, target)
    if found is None and not scope.in_all_namespaces:
        found = selects_elsewhere(quota, target)
    if found is None and target.kind is TargetKind.WORKLOAD and claim.addresses is None:
        found = pods_unknown(quota, target)
    return found
