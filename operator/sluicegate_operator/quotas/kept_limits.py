"""Limits that brokers keep while an object that they follow from cannot be read: none is lifted or made less strict.

Any limit in force may follow from the unreadable object, and a connection storm may come before a user corrects it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sluicegate_operator.api.configs.config_keys import ADAPTIVE_MIN_RATE, ADAPTIVE_P99, QUOTA_SCOPE
from sluicegate_operator.planning.limits.connection_groups import CONNECTION_GROUP, MEMBER, never_looser
from sluicegate_operator.planning.limits.limits import (
    COUNT_PER_IP_OVERRIDES,
    SCOPE_OF_CLUSTER,
    DesiredLimits,
    LimitKey,
    ObservedLimits,
    is_limit_key,
    is_scope,
)


@dataclass(frozen=True, slots=True)
class Keep:
    """Which limits brokers keep in one pass instead of lifting them: `all`, or those of certain connection groups."""

    all: bool = False
    groups: frozenset[str] = frozenset()

    @property
    def any(self) -> bool:
        """Whether there are limits that brokers keep in this pass."""
        return self.all or bool(self.groups)


KEEP_NOTHING = Keep()


def keep_limits(
    desired: DesiredLimits,
    observed: Mapping[int, ObservedLimits],
    keep: Keep,
    ours: Collection[LimitKey] | None = None,
) -> DesiredLimits:
    """Return `desired` with the limits that brokers keep in this pass.

    A limit that a broker has and `keep` covers is added if `desired` lacks it. It replaces the wanted value if it is
    stricter. Limits that are not in `ours` stay unchanged; None: all limits are ours.
    """
    configs, quotas = dict(desired.configs), dict(desired.quotas)
    views = observed.values() if keep.all else [_of_groups(view, keep.groups) for view in observed.values()]
    for view in views:
        quotas = never_looser(quotas, view.quotas)
        for key, value in view.default.items():
            if is_limit_key(key) and (ours is None or key in ours):
                configs[key] = _stricter(key, value, configs.get(key, value))
        configs = _consistent(configs, view.default)
        for quota, number in view.quotas.items():
            if ours is not None and quota not in ours:
                continue
            known = quotas.get(quota, number)
            # The value of a member is the number of the pod that has the address, not a limit.
            quotas[quota] = known if quota[1] == MEMBER else min(number, known)
    return DesiredLimits(configs, quotas, desired.exclusive)


def _of_groups(view: ObservedLimits, groups: Collection[str]) -> ObservedLimits:
    """Return the limits and members of these connection groups alone."""
    entities = {(CONNECTION_GROUP, group) for group in groups}
    return ObservedLimits({}, quotas={key: number for key, number in view.quotas.items() if key[0][0] in entities})


def differing(stated: DesiredLimits, kept: DesiredLimits) -> frozenset[LimitKey]:
    """Return the limits of `stated` that have another value in `kept`, which is what brokers get.

    Counts of single addresses are not included: they share one key, which does not show which count brokers keep.
    """
    keys: set[LimitKey] = {*stated.configs, *kept.configs, *kept.quotas}
    keys.discard(COUNT_PER_IP_OVERRIDES)
    return frozenset(key for key in keys if stated.value(key) != kept.value(key))


def _consistent(configs: Mapping[str, str], seen: Mapping[str, str]) -> dict[str, str]:
    """Return `configs` without the keys of one of the two kinds of rates that brokers refuse together.

    A rate cannot both adapt and be that of the cluster. Brokers keep the kind that they have, according to `seen`.
    """
    kept = dict(configs)
    for scope in [key for key, value in configs.items() if is_scope(key) and value == SCOPE_OF_CLUSTER]:
        prefix = scope.removesuffix(QUOTA_SCOPE)
        adaptive = (prefix + ADAPTIVE_P99, prefix + ADAPTIVE_MIN_RATE)
        if adaptive[0] in kept:
            for key in adaptive if seen.get(scope) == SCOPE_OF_CLUSTER else (scope,):
                kept.pop(key, None)
    return kept


def _stricter(key: str, one: str, other: str) -> str:
    if is_scope(key):
        return SCOPE_OF_CLUSTER if SCOPE_OF_CLUSTER in (one, other) else one
    if key != COUNT_PER_IP_OVERRIDES:
        return min(one, other, key=int)
    counts = _overrides(one)
    for address, count in _overrides(other).items():
        counts[address] = min(count, counts.get(address, count))
    return ",".join(sorted(f"{address}:{count}" for address, count in counts.items()))


def _overrides(value: str) -> dict[str, int]:
    """Return counts by address, which may contain colons."""
    pairs = (entry.rpartition(":") for entry in value.split(",") if entry)
    return {address: int(count) for address, _, count in pairs}
