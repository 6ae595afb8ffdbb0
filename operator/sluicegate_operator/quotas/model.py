"""The meaning of ConnectionQuotas: targets, the strictest of several quotas on one target, and Kafka's keys for them.

This module owns the precedence between ConnectionQuotas and the translation to Kafka's keys and quota entities.
quotas.plan plans all quotas of a cluster; planning.limits.limits has the limits as brokers keep them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import ip_address

from sluicegate_operator.api.configs.config_keys import ADAPTIVE_MIN_RATE, ADAPTIVE_P99, LISTENER_PREFIX
from sluicegate_operator.api.models.connection_quota import ConnectionQuota, QuotaTarget
from sluicegate_operator.api.models.parts.adaptive_rate import AdaptiveRate
from sluicegate_operator.planning.limits.connection_groups import (
    canonical_member,
    group_limits,
    group_name,
    membership,
)
from sluicegate_operator.planning.limits.limits import (
    COUNT,
    COUNT_PER_IP,
    COUNT_PER_IP_OVERRIDES,
    RATE,
    DesiredLimits,
    LimitKey,
    QuotaKey,
    ip_rate,
)
from sluicegate_operator.planning.status.missing_cluster import cluster_missing_words
from sluicegate_operator.planning.status.seniority import Seniority

OVERRIDES_BYTES_MAX = 32767
"""Maximum length of a configuration value in Kafka. The counts of all addresses of a cluster share one value."""


QuotaName = str
"""The metadata.name of a ConnectionQuota. It identifies the quota within its cluster: both are in one namespace.

A quota that is deleted and created again has the same name and another uid. Whatever was known of the earlier object is
forgotten then, except its selected pods (`KnownQuota.of`).
"""


class TargetKind(StrEnum):
    """The kind of a ConnectionQuota's target."""

    BROKER = "broker"
    LISTENER = "listener"
    IP = "ip"
    DEFAULT_IP = "defaultIp"
    CIDR = "cidr"
    WORKLOAD = "workload"


class LimitField(StrEnum):
    """The fields of a ConnectionQuota that limit something."""

    RATE = "maxConnectionCreationRate"
    COUNT = "maxConnections"


@dataclass(frozen=True, slots=True, order=True)
class TargetKey:
    """The target of limits.

    `name` is the listener, the address or range in its canonical form, or the quota of a workload; else empty. `apart`
    distinguishes limits that apply in addition to others on the same name: limits that the addresses of a range share,
    and limits that a quota only observes.
    """

    kind: TargetKind
    name: str = ""
    apart: str = ""

    @classmethod
    def of(cls, target: QuotaTarget) -> "TargetKey":
        if target.listener is not None:
            return cls(TargetKind.LISTENER, target.listener)
        if target.ip is not None:
            return cls(TargetKind.IP, str(ip_address(target.ip)))
        return cls(TargetKind.BROKER if target.broker is not None else TargetKind.DEFAULT_IP)

    @classmethod
    def of_quota(cls, quota: ConnectionQuota) -> "TargetKey":
        spec, target = quota.spec, quota.spec.target
        if target.workload is not None:
            return cls(TargetKind.WORKLOAD, quota.name)
        if target.cidr is None and not spec.is_observing:
            return cls.of(target)
        shared = "shared" if spec.is_shared else ""
        return cls(
            TargetKind.CIDR,
            canonical_member(target.cidr or target.ip or ""),
            f"observed by {quota.name}" if spec.is_observing else shared,
        )

    @property
    def is_group(self) -> bool:
        """Whether brokers have its limits as connection groups, one for each quota."""
        return self.kind in (TargetKind.CIDR, TargetKind.WORKLOAD)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that brokers enforce on one target; None means no limit. `rate` is the highest rate of `adaptive`."""

    rate: int | None = None
    count: int | None = None
    adaptive: AdaptiveRate | None = None


class QuotaOutcome(StrEnum):
    """The result for a ConnectionQuota; also the reason in its conditions."""

    ACCEPTED = "Accepted"
    CONFLICTED = "Conflicted"
    CLUSTER_MISSING = "ClusterMissing"
    LISTENER_MISSING = "ListenerMissing"
    TOO_MANY_ADDRESSES = "TooManyAddresses"
    EXPIRED = "Expired"
    UNSUPPORTED = "Unsupported"
    PODS_UNKNOWN = "PodsUnknown"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A field of a quota that is not enforced: `winner` has the stricter `value`, or the same and is older."""

    field: LimitField
    winner: str
    value: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a quota.

    Conflicted means that every field lost; a quota of which only some fields lost is Accepted and has conflicts.
    """

    quota: QuotaName
    target: TargetKey
    outcome: QuotaOutcome
    message: str = ""
    conflicts: tuple[Conflict, ...] = ()

    @property
    def target_found(self) -> bool:
        return self.outcome not in _WITHOUT_LIMITS

    @property
    def has_expired(self) -> bool:
        return self.outcome is QuotaOutcome.EXPIRED

    @property
    def needs_a_person(self) -> bool:
        """Whether the quota cannot be enforced before a user changes something."""
        return self.outcome not in (QuotaOutcome.ACCEPTED, QuotaOutcome.EXPIRED, QuotaOutcome.PODS_UNKNOWN)


_WITHOUT_LIMITS = (
    QuotaOutcome.CLUSTER_MISSING,
    QuotaOutcome.LISTENER_MISSING,
    QuotaOutcome.EXPIRED,
    QuotaOutcome.UNSUPPORTED,
    QuotaOutcome.PODS_UNKNOWN,
)


def while_open(
    desired: DesiredLimits, closing: Mapping[TargetKey, Limits], open_somewhere: Collection[str] | None
) -> DesiredLimits:
    """Return `desired` with the limits of closing listeners that some broker has open.

    `open_somewhere` is None if all may be open.
    """
    still = [at for at in closing if open_somewhere is None or at.name in open_somewhere]
    if not still:
        return desired
    configs = dict(desired.configs)
    for at in still:
        configs |= {key: str(value) for key, value in config_limits(at, closing[at]).items()}
    return replace(desired, configs=configs)


def cluster_missing(quota: ConnectionQuota, target: TargetKey) -> Verdict:
    return Verdict(quota.name, target, QuotaOutcome.CLUSTER_MISSING, cluster_missing_words(quota))


def no_clients(quota: ConnectionQuota, target: TargetKey) -> Verdict:
    """Return the verdict if a cluster has no listener for clients.

    A limit would apply to brokers and to the operator, which could not connect again to lift it.
    """
    message = (
        f"cluster {quota.spec.cluster_ref.name} has no BrokerListener, so clients cannot connect; create a"
        " BrokerListener"
    )
    return Verdict(quota.name, target, QuotaOutcome.LISTENER_MISSING, message)


def listener_missing(quota: ConnectionQuota, target: TargetKey) -> Verdict:
    message = (
        f"no BrokerListener of cluster {quota.spec.cluster_ref.name} has spec.name {target.name}; create it or"
        " correct target.listener"
    )
    return Verdict(quota.name, target, QuotaOutcome.LISTENER_MISSING, message)


def expired(quota: ConnectionQuota, target: TargetKey) -> Verdict:
    message = (
        f"the limit expired at expiresAt, {quota.spec.expires_at}; change expiresAt to apply it again, or delete"
        " the quota"
    )
    return Verdict(quota.name, target, QuotaOutcome.EXPIRED, message)


def ended_keys(quota: ConnectionQuota, target: TargetKey) -> frozenset[LimitKey]:
    """Return the limits that brokers have while the quota is in force.

    For a connection group the result has no members: an address is in no group once the group has no limits.
    """
    winners = winners_of([quota])
    if target.is_group:
        return frozenset(group_of_quota(quota, winners, {}))
    return frozenset(limit_keys(target, limits_of([quota], winners)))


def pods_unknown(quota: ConnectionQuota, target: TargetKey) -> Verdict:
    message = "the selected pods are not known yet: the operator waits for the API server to list them"
    return Verdict(quota.name, target, QuotaOutcome.PODS_UNKNOWN, message)


def selects_elsewhere(quota: ConnectionQuota, target: TargetKey) -> Verdict | None:
    """Return the verdict of an operator that watches one namespace; None if the quota selects no pods of others."""
    workload = quota.spec.target.workload
    if workload is None or workload.namespace_selector is None:
        return None
    message = (
        "this operator watches only one namespace: remove namespaceSelector, or install the operator for all namespaces"
    )
    return Verdict(quota.name, target, QuotaOutcome.UNSUPPORTED, message)


def unsupported(quota: ConnectionQuota, target: TargetKey) -> Verdict | None:
    """Return the verdict for a cluster that runs Apache Kafka; None if Kafka supports all that the quota asks for."""
    lacks = ""
    if quota.spec.adaptive is not None:
        lacks = "has no adaptive rates; set maxConnectionCreationRate"
    elif quota.spec.is_observing:
        lacks = "cannot observe a limit without enforcing it; set mode Enforce"
    elif target.kind is TargetKind.CIDR:
        lacks = "has no quotas on ranges of addresses; set target.ip for each address, or defaultIp"
    elif target.kind is TargetKind.WORKLOAD:
        lacks = "has no quotas on the addresses of pods; set target.ip for each address, or defaultIp"
    if not lacks:
        return None
    message = f"cluster {quota.spec.cluster_ref.name} has runtime External, and Apache Kafka {lacks}"
    return Verdict(quota.name, target, QuotaOutcome.UNSUPPORTED, message)


def group_of_quota(quota: ConnectionQuota, winners: "Winners", members: Mapping[str, float]) -> dict[QuotaKey, float]:
    """Return the connection group of a quota, with those of its limits that are the strictest on the range.

    The groups of other quotas enforce the other limits on the addresses of the range. Empty if no limit of the quota is
    the strictest.
    """
    name = group_name(quota.namespace, quota.name)
    rate, count = (value if winner == quota.name else None for value, winner in (winners[one] for one in LimitField))
    limits = group_limits(name, rate, count, shared=quota.spec.is_shared, observe=quota.spec.is_observing)
    return limits | membership(name, members) if limits else {}


def too_many_addresses(verdict: Verdict) -> Verdict:
    """Return the verdict if the count does not fit into the shared value. The rate, if there is one, is enforced."""
    message = (
        f"maxConnections of {verdict.target.name} is not enforced: Kafka stores the counts of all addresses of"
        f" a cluster in one value ({COUNT_PER_IP_OVERRIDES}) of at most {OVERRIDES_BYTES_MAX} bytes, and older"
        " ConnectionQuotas fill it; set maxConnectionCreationRate instead, limit all addresses by defaultIp,"
        " or delete other quotas"
    )
    return replace(verdict, outcome=QuotaOutcome.TOO_MANY_ADDRESSES, message=message)


def limit_of(quota: ConnectionQuota, limit: LimitField) -> int | None:
    spec = quota.spec
    return spec.highest_rate if limit is LimitField.RATE else spec.max_connections


Winners = Mapping[LimitField, tuple[int | None, str]]
"""The strictest value of each field, and the name of its quota."""


def winners_of(rivals: Sequence[ConnectionQuota]) -> Winners:
    """Return the winner of each field.

    `rivals` have one target and are sorted oldest first, so the oldest of equals wins.
    """
    return {limit: _strictest(rivals, limit) for limit in LimitField}


def limits_of(quotas: Sequence[ConnectionQuota], winners: Winners) -> Limits:
    """Return the limits that are enforced on a target: the strictest ones of its `quotas`.

    `winners` is the result of `winners_of(quotas)`.
    """
    rate, winner = winners[LimitField.RATE]
    adaptive = next((quota.spec.adaptive for quota in quotas if quota.name == winner), None)
    return Limits(rate, winners[LimitField.COUNT][0], adaptive)


def _strictest(rivals: Sequence[ConnectionQuota], limit: LimitField) -> tuple[int | None, str]:
    values = [(value, quota.name) for quota in rivals if (value := limit_of(quota, limit)) is not None]
    return min(values, key=lambda pair: pair[0]) if values else (None, "")


def verdict_of(quota: ConnectionQuota, target: TargetKey, winners: Winners, limits: Limits) -> Verdict:
    """Return the verdict of a quota on a target with these winners, and with their `limits`."""
    stated = [limit for limit in LimitField if limit_of(quota, limit) is not None]
    conflicts = []
    for limit in stated:
        value, winner = winners[limit]
        if winner != quota.name and value is not None:
            conflicts.append(Conflict(limit, winner, value))
    if not conflicts:
        return Verdict(quota.name, target, QuotaOutcome.ACCEPTED)
    names = {limit: limit.value for limit in LimitField}
    if limits.adaptive is not None:
        names[LimitField.RATE] = "adaptive.maxRate"
    details = ", ".join(f"{names[lost.field]} {lost.value} of ConnectionQuota {lost.winner}" for lost in conflicts)
    message = (
        f"other quotas have the same target, and these are enforced instead: {details}; delete one of the quotas"
        " or change its target"
    )
    outcome = QuotaOutcome.CONFLICTED if len(conflicts) == len(stated) else QuotaOutcome.ACCEPTED
    return Verdict(quota.name, target, outcome, message, tuple(conflicts))


def limit_values(target: TargetKey, limit: Limits) -> dict[LimitKey, str | float]:
    """Return the desired limits of one target. The counts of single addresses share one key, see `overrides`."""
    values: dict[LimitKey, str | float] = {key: str(value) for key, value in config_limits(target, limit).items()}
    if target.kind in (TargetKind.IP, TargetKind.DEFAULT_IP) and limit.rate is not None:
        values[ip_rate(target.name or None)] = float(limit.rate)
    return values


def limit_keys(target: TargetKey, limit: Limits) -> tuple[LimitKey, ...]:
    """Return the limits that brokers must have for one target."""
    keys = tuple(limit_values(target, limit))
    return (*keys, COUNT_PER_IP_OVERRIDES) if target.kind is TargetKind.IP and limit.count is not None else keys


def config_limits(target: TargetKey, limit: Limits) -> dict[str, int]:
    """Return the dynamic broker keys that belong to one target alone."""
    prefix = f"{LISTENER_PREFIX}{target.name.lower()}."
    keys: dict[str, int | None] = {}
    if target.kind in (TargetKind.BROKER, TargetKind.LISTENER):
        own = prefix if target.kind is TargetKind.LISTENER else ""
        keys = {f"{own}{RATE}": limit.rate, f"{own}{COUNT}": limit.count}
        if limit.adaptive is not None:
            keys |= {
                f"{own}{ADAPTIVE_P99}": limit.adaptive.objective.p99_ms,
                f"{own}{ADAPTIVE_MIN_RATE}": limit.adaptive.min_rate,
            }
    elif target.kind is TargetKind.DEFAULT_IP:
        keys = {COUNT_PER_IP: limit.count}
    return {key: value for key, value in keys.items() if value is not None}


def overrides(counts: Mapping[str, tuple[Seniority, int]]) -> tuple[str, frozenset[str]]:
    """Return the value with the counts of all addresses, and the addresses that do not fit into it.

    Those belong to the youngest quotas. `counts` has the count of each address with the seniority of its quota.
    """
    entries = {address: f"{address}:{count}" for address, (_, count) in counts.items()}
    if sum(map(len, entries.values())) + len(entries) - 1 <= OVERRIDES_BYTES_MAX:
        return ",".join(sorted(entries.values())), frozenset()
    room, over = OVERRIDES_BYTES_MAX + 1, set()
    for address in sorted(entries, key=lambda address: counts[address][0]):
        room -= len(entries[address]) + 1
        if room < 0:
            over.add(address)
    # All younger entries are left out, however short: otherwise they would come and go with the lengths of others.
    kept = sorted(entry for address, entry in entries.items() if address not in over)
    return ",".join(kept), frozenset(over)
