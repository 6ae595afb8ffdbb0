"""Which limits the brokers should have, and which requests bring them there.

Owns the precedence between ConnectionQuotas, the translation to Kafka's keys and quota entities, and the comparison
with what each broker says. It knows neither the admin client nor time. Limits are set as the cluster's default, so a
broker that is away learns them (or that they are lifted) when it comes back; a broker's own override is somebody's hand
and is taken away.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from ipaddress import ip_address

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.api.config_keys import LIMIT_KEYS, LISTENER_PREFIX
from sluicegate_operator.api.connection_quota import ConnectionQuota, Target
from sluicegate_operator.planning.cluster_layout import cluster_listeners

RATE = "max.connection.creation.rate"
COUNT = "max.connections"
COUNT_PER_IP = "max.connections.per.ip"
COUNT_PER_IP_OVERRIDES = "max.connections.per.ip.overrides"


def is_limit_key(key: str) -> bool:
    """Whether the operator owns this dynamic broker key of a bundled cluster."""
    return key in LIMIT_KEYS or (key.startswith(LISTENER_PREFIX) and key.endswith((f".{RATE}", f".{COUNT}")))


class TargetKind(StrEnum):
    """What a ConnectionQuota limits."""

    BROKER = "broker"
    LISTENER = "listener"
    IP = "ip"
    DEFAULT_IP = "defaultIp"


class LimitField(StrEnum):
    """The fields of a ConnectionQuota that limit something."""

    RATE = "maxConnectionCreationRate"
    COUNT = "maxConnections"


@dataclass(frozen=True, slots=True, order=True)
class TargetKey:
    """What is limited; `name` is the listener or the address in its canonical form, else empty."""

    kind: TargetKind
    name: str = ""

    @classmethod
    def of(cls, target: Target) -> "TargetKey":
        if target.listener is not None:
            return cls(TargetKind.LISTENER, target.listener)
        if target.ip is not None:
            return cls(TargetKind.IP, str(ip_address(target.ip)))
        return cls(TargetKind.BROKER if target.broker is not None else TargetKind.DEFAULT_IP)


@dataclass(frozen=True, slots=True)
class Limits:
    """What is enforced on one target; None: no limit."""

    rate: int | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class DesiredLimits:
    """`configs`: the cluster's default dynamic broker configuration, limit keys only. `ip_rates`: the `ip` quota
    entities, None is the default of all addresses. `exclusive`: every other limit is lifted."""

    configs: Mapping[str, str] = field(default_factory=dict)
    ip_rates: Mapping[str | None, float] = field(default_factory=dict)
    exclusive: bool = True


class Outcome(StrEnum):
    """What became of a ConnectionQuota; also the reason in its conditions."""

    ACCEPTED = "Accepted"
    CONFLICTED = "Conflicted"
    CLUSTER_MISSING = "ClusterMissing"
    LISTENER_MISSING = "ListenerMissing"


@dataclass(frozen=True, slots=True)
class Conflict:
    """`field` of this quota is not enforced, because `winner` has the stricter (or the same, older) `value`."""

    field: LimitField
    winner: str
    value: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Conflicted when every field lost; a quota that lost only some is Accepted and has conflicts."""

    quota: str
    target: TargetKey
    outcome: Outcome
    message: str = ""
    conflicts: tuple[Conflict, ...] = ()

    @property
    def target_found(self) -> bool:
        return self.outcome not in (Outcome.CLUSTER_MISSING, Outcome.LISTENER_MISSING)


@dataclass(frozen=True, slots=True)
class Closing:
    """Limits of a listener whose BrokerListener is gone: they stay until no broker has its port open."""

    target: TargetKey
    limits: Limits


@dataclass(frozen=True, slots=True)
class QuotaPlan:
    """`limits` is what is enforced on each target; `verdicts` by the quota's metadata.name."""

    desired: DesiredLimits
    limits: Mapping[TargetKey, Limits]
    verdicts: Mapping[str, Verdict]
    closing: tuple[Closing, ...] = ()


@dataclass(frozen=True, slots=True)
class ObservedLimits:
    """What one broker says. `default` and `own` are its dynamic configuration of the two levels (DescribeConfigs,
    sources DYNAMIC_DEFAULT_BROKER_CONFIG and DYNAMIC_BROKER_CONFIG); keys that are no limits do no harm. `listeners`:
    the names of those that it has open, None where it was not asked."""

    default: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    ip_rates: Mapping[str | None, float] = field(default_factory=dict)
    listeners: frozenset[str] | None = None

    def in_force(self, key: str) -> str | None:
        return self.own.get(key, self.default.get(key))


@dataclass(frozen=True, slots=True)
class SetBrokerConfigs:
    """IncrementalAlterConfigs of one broker; None is the cluster's default."""

    broker_id: int | None
    set: Mapping[str, str]
    delete: tuple[str, ...] = ()

    def __str__(self) -> str:
        """For people."""
        steps = [f"{key}={value}" for key, value in sorted(self.set.items())]
        steps += [f"{key} taken away" for key in sorted(self.delete)]
        return f"{'all brokers' if self.broker_id is None else f'broker {self.broker_id}'}: {', '.join(steps)}"


@dataclass(frozen=True, slots=True)
class SetIpQuota:
    """AlterClientQuotas of `ip` (None: the default); a rate of None removes the quota."""

    ip: str | None
    rate: float | None


Action = SetBrokerConfigs | SetIpQuota


_OF_EVERYBODY = (TargetKind.BROKER, TargetKind.DEFAULT_IP)


def plan_quotas(
    cluster: BrokerCluster | None, listeners: Sequence[BrokerListener], quotas: Sequence[ConnectionQuota]
) -> QuotaPlan:
    """`quotas` of other clusters are left out; without a cluster all of them miss theirs."""
    living = [quota for quota in quotas if quota.metadata.deletion_timestamp is None]
    if cluster is None:
        return QuotaPlan(DesiredLimits(), {}, {quota.name: _cluster_missing(quota) for quota in living})
    own = [
        quota
        for quota in living
        if quota.spec.cluster_ref.name == cluster.name and quota.namespace == cluster.namespace
    ]
    bundled = cluster.spec.runtime == "Bundled"
    known = {listener.spec.name for listener in cluster_listeners(cluster, listeners)} if bundled else None
    verdicts: dict[str, Verdict] = {}
    by_target: dict[TargetKey, list[ConnectionQuota]] = {}
    closing: dict[TargetKey, list[ConnectionQuota]] = {}
    for quota in sorted(own, key=_seniority):
        target = TargetKey.of(quota.spec.target)
        if target.kind is TargetKind.LISTENER and known is not None and target.name not in known:
            verdicts[quota.name] = _listener_missing(quota, target)
            closing.setdefault(target, []).append(quota)
        elif target.kind in _OF_EVERYBODY and known is not None and not known:
            verdicts[quota.name] = _no_clients(quota, target)
        else:
            by_target.setdefault(target, []).append(quota)
    limits = {}
    for target, rivals in sorted(by_target.items()):
        winners = {limit: _strictest(rivals, limit) for limit in LimitField}
        limits[target] = _limits(winners)
        verdicts |= {quota.name: _verdict(quota, target, winners) for quota in rivals}
    return QuotaPlan(_desired(limits, exclusive=bundled), limits, verdicts, _closing(closing))


def _closing(by_target: Mapping[TargetKey, Sequence[ConnectionQuota]]) -> tuple[Closing, ...]:
    return tuple(
        Closing(target, _limits({limit: _strictest(rivals, limit) for limit in LimitField}))
        for target, rivals in sorted(by_target.items())
    )


def while_open(
    desired: DesiredLimits, closing: Sequence[Closing], observed: Mapping[int, ObservedLimits]
) -> DesiredLimits:
    """`desired`, and what counts until no broker that was seen has the port open."""
    configs = dict(desired.configs)
    for each in closing:
        if any(has_open(each.target, seen) for seen in observed.values()):
            configs |= {key: str(value) for key, value in _config_limits(each.target, each.limits).items()}
    return replace(desired, configs=configs)


def _limits(winners: Mapping[LimitField, tuple[int | None, str]]) -> Limits:
    return Limits(winners[LimitField.RATE][0], winners[LimitField.COUNT][0])


def _seniority(quota: ConnectionQuota) -> tuple[float, str]:
    created = quota.metadata.creation_timestamp
    return (created.timestamp() if created else 0.0, quota.name)


def _cluster_missing(quota: ConnectionQuota) -> Verdict:
    name = quota.spec.cluster_ref.name
    message = f"there is no BrokerCluster {name} in namespace {quota.namespace}; create it or correct clusterRef"
    return Verdict(quota.name, TargetKey.of(quota.spec.target), Outcome.CLUSTER_MISSING, message)


def _no_clients(quota: ConnectionQuota, target: TargetKey) -> Verdict:
    """A limit would be one for the brokers themselves and for the operator, who would not come back to lift it."""
    message = (
        f"cluster {quota.spec.cluster_ref.name} has no BrokerListener, so no client connects to it and nothing is to be"
        " limited; create one"
    )
    return Verdict(quota.name, target, Outcome.LISTENER_MISSING, message)


def _listener_missing(quota: ConnectionQuota, target: TargetKey) -> Verdict:
    message = (
        f"no BrokerListener of cluster {quota.spec.cluster_ref.name} has spec.name {target.name};"
        " create one or correct target.listener"
    )
    return Verdict(quota.name, target, Outcome.LISTENER_MISSING, message)


def limit_of(quota: ConnectionQuota, limit: LimitField) -> int | None:
    spec = quota.spec
    return spec.max_connection_creation_rate if limit is LimitField.RATE else spec.max_connections


def _strictest(rivals: Sequence[ConnectionQuota], limit: LimitField) -> tuple[int | None, str]:
    """The value and its quota's name; `rivals` come oldest first, so the oldest of equals wins."""
    values = [(value, quota.name) for quota in rivals if (value := limit_of(quota, limit)) is not None]
    return min(values, key=lambda pair: pair[0]) if values else (None, "")


def _verdict(
    quota: ConnectionQuota, target: TargetKey, winners: Mapping[LimitField, tuple[int | None, str]]
) -> Verdict:
    stated = [limit for limit in LimitField if limit_of(quota, limit) is not None]
    conflicts = []
    for limit in stated:
        value, winner = winners[limit]
        if winner != quota.name and value is not None:
            conflicts.append(Conflict(limit, winner, value))
    if not conflicts:
        return Verdict(quota.name, target, Outcome.ACCEPTED)
    details = ", ".join(f"{lost.field} {lost.value} of ConnectionQuota {lost.winner}" for lost in conflicts)
    message = f"same target; enforced instead: {details}; delete one of them or change its target"
    outcome = Outcome.CONFLICTED if len(conflicts) == len(stated) else Outcome.ACCEPTED
    return Verdict(quota.name, target, outcome, message, tuple(conflicts))


def _desired(limits: Mapping[TargetKey, Limits], *, exclusive: bool) -> DesiredLimits:
    configs: dict[str, str] = {}
    ip_rates: dict[str | None, float] = {}
    for target, limit in limits.items():
        configs |= {key: str(value) for key, value in _config_limits(target, limit).items()}
        ip = _rated_ip(target)
        if ip is not None and limit.rate is not None:
            ip_rates[ip[0]] = float(limit.rate)
    overrides = sorted(
        f"{target.name}:{limit.count}"
        for target, limit in limits.items()
        if target.kind is TargetKind.IP and limit.count is not None
    )
    if overrides:
        configs[COUNT_PER_IP_OVERRIDES] = ",".join(overrides)
    return DesiredLimits(configs, ip_rates, exclusive)


def _config_limits(target: TargetKey, limit: Limits) -> dict[str, int]:
    """The dynamic broker keys of one target; those of a single address share one key, see `_desired`."""
    prefix = f"{LISTENER_PREFIX}{target.name.lower()}."
    keys: dict[str, int | None] = {}
    if target.kind is TargetKind.BROKER:
        keys = {RATE: limit.rate, COUNT: limit.count}
    elif target.kind is TargetKind.LISTENER:
        keys = {f"{prefix}{RATE}": limit.rate, f"{prefix}{COUNT}": limit.count}
    elif target.kind is TargetKind.DEFAULT_IP:
        keys = {COUNT_PER_IP: limit.count}
    return {key: value for key, value in keys.items() if value is not None}


def _rated_ip(target: TargetKey) -> tuple[str | None] | None:
    if target.kind is TargetKind.IP:
        return (target.name,)
    return (None,) if target.kind is TargetKind.DEFAULT_IP else None


def diff_quotas(
    desired: DesiredLimits,
    observed: Mapping[int, ObservedLimits],
    released: Collection[TargetKey] = (),
) -> list[Action]:
    """What brings every broker that was seen to `desired`; nothing when all are there.

    `released` matters for a cluster that is not exclusively ours: targets whose quota is gone, to be lifted there.
    """
    actions: list[Action] = []
    lifted = _Lifted.of(desired, released)
    views = list(observed.values())
    stale = {
        key: value for key, value in desired.configs.items() if any(view.default.get(key) != value for view in views)
    }
    surplus = {key for view in views for key in view.default if key not in desired.configs and lifted.config(key)}
    if stale or surplus:
        actions.append(SetBrokerConfigs(None, dict(sorted(stale.items())), tuple(sorted(surplus))))
    for broker_id, view in sorted(observed.items()):
        # An override of a key that we set hides our value, whoever owns the rest of the cluster.
        own = tuple(sorted(key for key in view.own if key in desired.configs or lifted.config(key)))
        if own:
            actions.append(SetBrokerConfigs(broker_id, {}, own))
    return actions + _ip_actions(desired, views, lifted)


def _ip_actions(desired: DesiredLimits, views: Sequence[ObservedLimits], lifted: "_Lifted") -> list[Action]:
    wanted = [ip for ip, rate in desired.ip_rates.items() if any(view.ip_rates.get(ip) != rate for view in views)]
    surplus = {ip for view in views for ip in view.ip_rates if ip not in desired.ip_rates and lifted.ip(ip)}
    return [SetIpQuota(ip, desired.ip_rates.get(ip)) for ip in sorted({*wanted, *surplus}, key=lambda ip: ip or "")]


@dataclass(frozen=True, slots=True)
class _Lifted:
    """Which limits that nobody wants are taken away: all of them, or only those of released targets."""

    everything: bool
    configs: frozenset[str]
    ips: frozenset[str | None]

    @classmethod
    def of(cls, desired: DesiredLimits, released: Collection[TargetKey]) -> "_Lifted":
        former = _desired(dict.fromkeys(released, Limits(1, 1)), exclusive=False)
        return cls(desired.exclusive, frozenset(former.configs), frozenset(former.ip_rates))

    def config(self, key: str) -> bool:
        return (self.everything and is_limit_key(key)) or key in self.configs

    def ip(self, ip: str | None) -> bool:
        return self.everything or ip in self.ips


def enforces(target: TargetKey, limits: Limits, desired: DesiredLimits, seen: ObservedLimits) -> bool:
    """Whether a broker that says `seen` enforces `limits` on `target`; none does on a listener that it has not open."""
    if not has_open(target, seen):
        return False
    keys = list(_config_limits(target, limits))
    if target.kind is TargetKind.IP and limits.count is not None:
        keys.append(COUNT_PER_IP_OVERRIDES)
    if any(seen.in_force(key) != desired.configs[key] for key in keys):
        return False
    ip = _rated_ip(target)
    return ip is None or limits.rate is None or seen.ip_rates.get(ip[0]) == limits.rate


def concerns(action: Action, target: TargetKey, limits: Limits) -> bool:
    """Whether the change is one that `limits` on `target` need."""
    if isinstance(action, SetIpQuota):
        return _rated_ip(target) == (action.ip,)
    keys = set(_config_limits(target, limits))
    if target.kind is TargetKind.IP and limits.count is not None:
        keys.add(COUNT_PER_IP_OVERRIDES)
    return not keys.isdisjoint({*action.set, *action.delete})


def has_open(target: TargetKey, seen: ObservedLimits) -> bool:
    return target.kind is not TargetKind.LISTENER or seen.listeners is None or target.name in seen.listeners


def lagging_brokers(
    plan: QuotaPlan, expected: Collection[int], observed: Mapping[int, ObservedLimits]
) -> dict[str, tuple[int, ...]]:
    """By quota: the brokers of `expected` that do not enforce its target's limits, or were not seen."""
    lagging = {}
    for name, verdict in plan.verdicts.items():
        if verdict.target_found:
            limits = plan.limits[verdict.target]
            lagging[name] = tuple(
                broker_id
                for broker_id in sorted(expected)
                if broker_id not in observed or not enforces(verdict.target, limits, plan.desired, observed[broker_id])
            )
    return lagging


def apply_actions(actions: Sequence[Action], observed: Mapping[int, ObservedLimits]) -> dict[int, ObservedLimits]:
    """What brokers that carry out `actions` will say; planning's own model of them, used to check it."""
    after = dict(observed)
    for action in actions:
        for broker_id, view in after.items():
            after[broker_id] = _applied(action, broker_id, view)
    return after


def _applied(action: Action, broker_id: int, view: ObservedLimits) -> ObservedLimits:
    if isinstance(action, SetIpQuota):
        rates = {ip: rate for ip, rate in view.ip_rates.items() if ip != action.ip}
        return replace(view, ip_rates=rates if action.rate is None else rates | {action.ip: action.rate})
    if action.broker_id is None:
        return replace(view, default=_altered(view.default, action))
    if action.broker_id == broker_id:
        return replace(view, own=_altered(view.own, action))
    return view


def _altered(configs: Mapping[str, str], action: SetBrokerConfigs) -> dict[str, str]:
    return {key: value for key, value in configs.items() if key not in action.delete} | dict(action.set)
