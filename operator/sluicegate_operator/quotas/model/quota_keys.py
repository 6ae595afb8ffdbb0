"""The keys and connection groups by which brokers get the limits of ConnectionQuotas. Pure.

quotas.plan plans all quotas of a cluster; planning.limits.limits has the limits as brokers keep them.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from sluicegate_operator.api.configs.config_keys import ADAPTIVE_MIN_RATE, ADAPTIVE_P99, LISTENER_PREFIX, QUOTA_SCOPE
from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.planning.limits.connection_groups import group_limits, group_name, membership
from sluicegate_operator.planning.limits.limits import (
    COUNT,
    COUNT_PER_IP,
    COUNT_PER_IP_OVERRIDES,
    RATE,
    SCOPE_OF_CLUSTER,
    DesiredLimits,
    LimitKey,
    QuotaKey,
    ip_rate,
)
from sluicegate_operator.planning.status.seniority import Seniority
from sluicegate_operator.quotas.model.strictest import Winners, limits_of, winners_of
from sluicegate_operator.quotas.model.targets import LimitField, Limits, TargetKey, TargetKind

OVERRIDES_BYTES_MAX = 32767
"""Maximum length of a configuration value in Kafka. The counts of all addresses of a cluster share one value."""


def while_open(
    desired: DesiredLimits, closing: Mapping[TargetKey, Limits], open_somewhere: Collection[str] | None
) -> DesiredLimits:
    """Return `desired` with the limits of removed listeners that some broker still has open.

    `open_somewhere` has the names of open listeners; None if all may be open.
    """
    still = [at for at in closing if open_somewhere is None or at.name in open_somewhere]
    if not still:
        return desired
    configs = dict(desired.configs)
    for at in still:
        configs |= {key: str(value) for key, value in config_limits(at, closing[at]).items()}
    return replace(desired, configs=configs)


def ended_keys(quota: ConnectionQuota, target: TargetKey) -> frozenset[LimitKey]:
    """Return the limits that brokers must have lifted once the quota has ended.

    For a connection group the result has no members: an address is in no group once the group has no limits.
    """
    winners = winners_of([quota])
    if target.is_group:
        return frozenset(group_of_quota(quota, winners, {}))
    return frozenset(limit_keys(target, limits_of([quota], winners)))


def group_of_quota(quota: ConnectionQuota, winners: "Winners", members: Mapping[str, float]) -> dict[QuotaKey, float]:
    """Return the connection group of a quota, with those of its limits that are the strictest on the range.

    The groups of other quotas enforce the other limits on the addresses of the range. Empty if no limit of the quota is
    the strictest.
    """
    name = group_name(quota.namespace, quota.name)
    spec = quota.spec
    rate, count = (value if winner == quota.name else None for value, winner in (winners[one] for one in LimitField))
    shared = spec.is_shared or spec.is_of_cluster
    limits = group_limits(name, rate, count, shared=shared, observe=spec.is_observing, of_cluster=spec.is_of_cluster)
    return limits | membership(name, members) if limits else {}


def limit_values(target: TargetKey, limit: Limits) -> dict[LimitKey, str | float]:
    """Return the values that brokers must have for the limits of one target.

    The counts of single addresses share one key, see `overrides`.
    """
    values: dict[LimitKey, str | float] = {key: str(value) for key, value in config_limits(target, limit).items()}
    if target.kind in (TargetKind.IP, TargetKind.DEFAULT_IP) and limit.rate is not None:
        values[ip_rate(target.name or None)] = float(limit.rate)
    return values


def limit_keys(target: TargetKey, limit: Limits) -> tuple[LimitKey, ...]:
    """Return the keys of the limits that brokers must have for one target."""
    keys = tuple(limit_values(target, limit))
    return (*keys, COUNT_PER_IP_OVERRIDES) if target.kind is TargetKind.IP and limit.count is not None else keys


def config_limits(target: TargetKey, limit: Limits) -> dict[str, int | str]:
    """Return the dynamic broker keys, with values, that limit this one target and no other."""
    prefix = f"{LISTENER_PREFIX}{target.name.lower()}."
    keys: dict[str, int | str | None] = {}
    if target.kind in (TargetKind.BROKER, TargetKind.LISTENER):
        own = prefix if target.kind is TargetKind.LISTENER else ""
        keys = {f"{own}{RATE}": limit.rate, f"{own}{COUNT}": limit.count}
        if limit.adaptive is not None:
            keys |= {
                f"{own}{ADAPTIVE_P99}": limit.adaptive.objective.p99_ms,
                f"{own}{ADAPTIVE_MIN_RATE}": limit.adaptive.min_rate,
            }
        if limit.of_cluster:
            keys[f"{own}{QUOTA_SCOPE}"] = SCOPE_OF_CLUSTER
    elif target.kind is TargetKind.DEFAULT_IP:
        keys = {COUNT_PER_IP: limit.count}
    return {key: value for key, value in keys.items() if value is not None}


def overrides(counts: Mapping[str, tuple[Seniority, int]]) -> tuple[str, frozenset[str]]:
    """Return the value of Kafka's key with the counts of all addresses, and the addresses that do not fit into it.

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
