"""All ConnectionQuotas of one cluster, planned again where they have changed: two on one target decide by each other,
so what is planned again is the target.

Nothing here reads a clock. `update` is a generator, so that whoever has an event loop lets others have it in between.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.api.connection_quota import ConnectionQuota
from sluicegate_operator.planning.cluster_layout import cluster_listeners
from sluicegate_operator.planning.connection_groups import ANYBODY, group_name, membership
from sluicegate_operator.planning.limits import COUNT_PER_IP_OVERRIDES, DesiredLimits, LimitKey, QuotaKey
from sluicegate_operator.planning.seniority import Seniority, seniority
from sluicegate_operator.quotas.model import (
    Limits,
    QuotaPlan,
    TargetKey,
    TargetKind,
    Verdict,
    Winners,
    cluster_missing,
    ended_keys,
    expired,
    group_of_quota,
    is_expired,
    limit_values,
    limits_of,
    listener_missing,
    no_clients,
    overrides,
    pods_unknown,
    selects_elsewhere,
    too_many_addresses,
    unsupported,
    verdict_of,
    winners_of,
)

COMPARED_A_TURN = 1000
PLANNED_A_TURN = 100
"""So many are looked at before others have the event loop: a few milliseconds."""

_OF_EVERYBODY = (TargetKind.BROKER, TargetKind.DEFAULT_IP)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What all quotas of a cluster depend on. `known`: its listeners, None where they are not known."""

    there: bool = False
    exclusive: bool = True
    known: frozenset[str] | None = None

    @classmethod
    def of(cls, cluster: BrokerCluster | None, listeners: Sequence[BrokerListener]) -> "_Scope":
        if cluster is None:
            return cls()
        bundled = cluster.spec.runtime == "Bundled"
        known = frozenset(one.spec.name for one in cluster_listeners(cluster, listeners)) if bundled else None
        return cls(True, bundled, known)


class QuotaPlanner:
    """Call `update` with all quotas, then read `plan`. Changes are added to `changed_quotas`, whose statuses are to be
    written, and to `changed_keys`, which are to be sent. They stay there until the caller has taken them, so a pass
    that fails in between loses nothing."""

    def __init__(self, *, in_all_namespaces: bool = True) -> None:
        """`in_all_namespaces`: whether pods of other namespaces can be selected."""
        self._in_all_namespaces = in_all_namespaces
        self.quotas: dict[str, ConnectionQuota] = {}
        """By name, as they were given last."""
        self.changed_quotas: set[str] = set()
        self.changed_keys: set[LimitKey] = set()
        self._scope: _Scope | None = None
        self._targets: dict[str, TargetKey] = {}
        self._rivals: dict[TargetKey, set[str]] = {}
        self._set_keys: dict[TargetKey, tuple[LimitKey, ...]] = {}
        self._configs: dict[str, str] = {}
        self._client_quotas: dict[QuotaKey, float] = {}
        self._limits: dict[TargetKey, Limits] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._closing: dict[TargetKey, Limits] = {}
        self._counts: dict[str, tuple[Seniority, int]] = {}
        self._without_room: frozenset[str] = frozenset()
        self._counts_changed = False
        self._touched: set[TargetKey] = set()
        self._workloads: dict[str, Mapping[str, float]] = {}
        """By quota: the addresses that it selects, with the numbers of their pods."""
        self._groups: dict[str, dict[QuotaKey, float]] = {}
        """By quota: what its connection group is; without those that have none."""
        self._members: dict[str, int] = {}
        self._expiring: dict[str, datetime] = {}
        self._expired: set[str] = set()
        self._ended: dict[str, frozenset[LimitKey]] = {}

    @property
    def plan(self) -> QuotaPlan:
        """As of the last `update`; it changes with the next one."""
        exclusive = self._scope is None or self._scope.exclusive
        desired = DesiredLimits(self._configs, self._client_quotas, exclusive)
        return QuotaPlan(desired, self._limits, self._verdicts, self._closing, self._groups, self._members, self._ended)

    def quotas_on(self, target: TargetKey) -> Set[str]:
        """Names of the quotas that limit the target."""
        return self._rivals.get(target, set())

    def is_settled(self, name: str) -> bool:
        """Whether the plan is that of the quota as it is now, and somebody has taken what has changed with it."""
        target = self._targets.get(name)
        return name in self._verdicts and name not in self.changed_quotas and target not in self._touched

    @property
    def next_expiry(self) -> datetime | None:
        """When `update` is to be used again because a limit ends."""
        return min((at for name, at in self._expiring.items() if name not in self._expired), default=None)

    def select(self, workloads: Mapping[str, Mapping[str, float]]) -> None:
        """The addresses that these quotas select now, with the numbers of their pods; costs no more than what came and
        went. To be used before `update`, and of no effect on quotas that it has not seen."""
        for quota, addresses in workloads.items():
            before, self._workloads[quota] = self._workloads.get(quota), addresses
            if quota not in self.quotas:
                continue
            self.changed_quotas.add(quota)
            group = self._groups.get(quota)
            if group is None or before is None:
                self._touched.add(self._targets[quota])
                continue
            name = group_name(self.quotas[quota].namespace, quota)
            joined = membership(name, {at: pod for at, pod in addresses.items() if before.get(at) != pod})
            left = membership(name, {at: pod for at, pod in before.items() if at not in addresses})
            for key in (*joined, *left):
                self._put(key, joined.get(key))
            for key in left:
                del group[key]
            group |= joined
            self._members[quota] = len(addresses)

    def update(
        self,
        cluster: BrokerCluster | None,
        listeners: Sequence[BrokerListener],
        quotas: Iterable[ConnectionQuota],
        now: datetime,
    ) -> Iterator[None]:
        """Quotas of other clusters are left out; without a cluster all of them miss theirs. `now` ends limits."""
        scope = _Scope.of(cluster, listeners)
        if scope != self._scope:
            self._scope = scope
            self._touched.update(self._rivals)
        left = set(self.quotas)
        for number, quota in enumerate(quotas, 1):
            if quota.metadata.deletion_timestamp is None and (cluster is None or _is_of(quota, cluster)):
                left.discard(quota.name)
                self._take(quota)
            if number % COMPARED_A_TURN == 0:
                yield
        for name in left:
            self._drop(name)
        self._end_limits(now)
        yield from self._judge_touched()
        if self._counts_changed:
            self._counts_changed = False
            value, without_room = overrides(self._counts)
            self._set({COUNT_PER_IP_OVERRIDES: value} if value else {}, (COUNT_PER_IP_OVERRIDES,))
            self._touched.update(TargetKey(TargetKind.IP, one) for one in without_room ^ self._without_room)
            self._without_room = without_room
            yield from self._judge_touched()

    def _take(self, quota: ConnectionQuota) -> None:
        before = self.quotas.get(quota.name)
        if before is quota:
            return
        if before is not None and before.spec_version == quota.spec_version:
            if before.metadata.resource_version != quota.metadata.resource_version:
                self.quotas[quota.name] = quota
                if before.status != quota.status:
                    # Not as it was told last: somebody else's hand.
                    self.changed_quotas.add(quota.name)
            return
        self.quotas[quota.name] = quota
        if before is not None:
            self._leave_target(quota.name)
        target = self._targets[quota.name] = TargetKey.of_quota(quota)
        if not target.is_group:
            self._dissolve(quota.name)
        if target.kind is not TargetKind.WORKLOAD:
            self._workloads.pop(quota.name, None)
        if quota.spec.expires is not None:
            self._expiring[quota.name] = quota.spec.expires
        self._rivals.setdefault(target, set()).add(quota.name)
        self._touched.add(target)

    def _drop(self, name: str) -> None:
        del self.quotas[name]
        self._leave_target(name)
        self._dissolve(name)
        self._verdicts.pop(name, None)
        self._workloads.pop(name, None)
        self.changed_quotas.discard(name)

    def _end_limits(self, now: datetime) -> None:
        """Also the other way round: a clock may be set back."""
        ended = {name for name in self._expiring if is_expired(self.quotas[name], now)}
        self._touched.update(self._targets[name] for name in ended ^ self._expired)
        for name in ended ^ self._expired:
            self._ended.pop(name, None)
            if name in ended:
                self._ended[name] = ended_keys(self.quotas[name], self._targets[name])
        self._expired = ended

    def _leave_target(self, name: str) -> None:
        target = self._targets.pop(name)
        self._expiring.pop(name, None)
        self._expired.discard(name)
        self._ended.pop(name, None)
        rivals = self._rivals[target]
        rivals.discard(name)
        if not rivals:
            del self._rivals[target]
        self._touched.add(target)

    def _judge_touched(self) -> Iterator[None]:
        number = 0
        while self._touched:
            number += self._judge(self._touched.pop())
            if number >= PLANNED_A_TURN:
                number = 0
                yield

    def _judge(self, target: TargetKey) -> int:
        """How many quotas it has."""
        rivals = sorted((self.quotas[name] for name in self._rivals.get(target, ())), key=seniority)
        self._closing.pop(target, None)
        limits = self._judged(target, rivals)
        values = limit_values(target, limits) if limits is not None else {}
        self._set(values, self._set_keys.get(target, ()))
        if limits is not None:
            self._limits[target], self._set_keys[target] = limits, tuple(values)
        else:
            self._limits.pop(target, None)
            self._set_keys.pop(target, None)
        self.changed_quotas.update(quota.name for quota in rivals)
        return len(rivals) + 1

    def _judged(self, target: TargetKey, rivals: Sequence[ConnectionQuota]) -> Limits | None:
        """Verdicts on all of them; None when nothing is enforced on the target."""
        assert self._scope is not None
        known = self._scope.known
        missing = None
        if not self._scope.there:
            missing = [cluster_missing(quota) for quota in rivals]
        elif target.kind is TargetKind.LISTENER and known is not None and target.name not in known:
            missing = [listener_missing(quota, target) for quota in rivals]
            if rivals:
                self._closing[target] = limits_of(winners_of(rivals))
        elif target.kind in _OF_EVERYBODY and known is not None and not known:
            missing = [no_clients(quota, target) for quota in rivals]
        if missing is None:
            rivals = self._that_limit(target, rivals)
        if missing is not None or not rivals:
            self._count(target, None, ())
            self._verdicts |= {verdict.quota: verdict for verdict in missing or ()}
            self._group(target, rivals, None)
            return None
        winners = winners_of(rivals)
        limits = limits_of(winners)
        verdicts = {quota.name: verdict_of(quota, target, winners) for quota in rivals}
        self._count(target, limits.count, rivals)
        self._group(target, rivals, winners)
        if target.kind is TargetKind.IP and target.name in self._without_room and limits.count is not None:
            limits = replace(limits, count=None)
            counting = [quota.name for quota in rivals if quota.spec.max_connections is not None]
            verdicts |= {name: too_many_addresses(verdicts[name]) for name in counting}
        self._verdicts |= verdicts
        return limits

    def _dissolve(self, name: str) -> None:
        for key in self._groups.pop(name, ()):
            self._put(key, None)
        self._members.pop(name, None)

    def _that_limit(self, target: TargetKey, rivals: Sequence[ConnectionQuota]) -> list[ConnectionQuota]:
        """Without those that have ended, or that Apache Kafka cannot enforce; these have their verdicts then."""
        assert self._scope is not None
        limiting = []
        for quota in rivals:
            ended = expired(quota, target) if quota.name in self._expired else None
            verdict = ended or (None if self._scope.exclusive else unsupported(quota, target))
            if verdict is None and not self._in_all_namespaces:
                verdict = selects_elsewhere(quota, target)
            if verdict is None and target.kind is TargetKind.WORKLOAD and quota.name not in self._workloads:
                verdict = pods_unknown(quota, target)
            if verdict is None:
                limiting.append(quota)
                continue
            self._verdicts[quota.name] = verdict
            self._group(target, (quota,), None)
        return limiting

    def _group(self, target: TargetKey, rivals: Sequence[ConnectionQuota], winners: Winners | None) -> None:
        """Each quota's connection group, where the target is one; without winners there are none."""
        if not target.is_group:
            return
        for quota in rivals:
            workload = target.kind is TargetKind.WORKLOAD
            members = self._workloads.get(quota.name, {}) if workload else {target.name: ANYBODY}
            group = {} if winners is None else group_of_quota(quota, winners, members)
            for key in {*self._groups.pop(quota.name, ()), *group}:
                self._put(key, group.get(key))
            self._members.pop(quota.name, None)
            if group:
                self._groups[quota.name], self._members[quota.name] = group, len(members)

    def _count(self, target: TargetKey, count: int | None, rivals: Sequence[ConnectionQuota]) -> None:
        if target.kind is not TargetKind.IP:
            return
        before = self._counts.pop(target.name, None)
        if count is not None:
            oldest = next(quota for quota in rivals if quota.spec.max_connections is not None)
            self._counts[target.name] = (seniority(oldest), count)
        self._counts_changed |= before != self._counts.get(target.name)

    def _set(self, values: dict[LimitKey, str | float], former: Iterable[LimitKey]) -> None:
        for key in {*former, *values}:
            self._put(key, values.get(key))

    def _put(self, key: LimitKey, value: str | float | None) -> None:
        known: dict[LimitKey, str | float] = self._configs if isinstance(key, str) else self._client_quotas  # type: ignore[assignment]
        if known.get(key) == value:
            return
        self.changed_keys.add(key)
        if value is None:
            del known[key]
        else:
            known[key] = value


def _is_of(quota: ConnectionQuota, cluster: BrokerCluster) -> bool:
    return quota.spec.cluster_ref.name == cluster.name and quota.namespace == cluster.namespace


BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


def plan_quotas(
    cluster: BrokerCluster | None,
    listeners: Sequence[BrokerListener],
    quotas: Iterable[ConnectionQuota],
    now: datetime = BEFORE_ALL,
) -> QuotaPlan:
    """All at once, for who has no event loop to share. Without `now` no limit has ended."""
    planner = QuotaPlanner()
    for _ in planner.update(cluster, listeners, quotas, now):
        pass
    return planner.plan
