"""Limits while some of what they follow from cannot be read: they may become stricter, none is lifted or loosened.

What cannot be read may be the reason of any limit that is in force, and a storm does not wait for it to be corrected.
"""

from collections.abc import Collection, Mapping

from sluicegate_operator.planning.connection_groups import MEMBER, never_looser
from sluicegate_operator.planning.limits import (
    COUNT_PER_IP_OVERRIDES,
    DesiredLimits,
    LimitKey,
    ObservedLimits,
    is_limit_key,
)


def hold(
    desired: DesiredLimits, observed: Mapping[int, ObservedLimits], ours: Collection[LimitKey] | None = None
) -> DesiredLimits:
    """`desired`, with every limit that the cluster has now where that is stricter, or not in `desired` at all. Limits
    that are not `ours` are left alone; None: all are."""
    configs, quotas = dict(desired.configs), dict(desired.quotas)
    for view in observed.values():
        quotas = never_looser(quotas, view.quotas)
        for key, value in view.default.items():
            if is_limit_key(key) and (ours is None or key in ours):
                configs[key] = _stricter(key, value, configs.get(key, value))
        for quota, number in view.quotas.items():
            if ours is not None and quota not in ours:
                continue
            known = quotas.get(quota, number)
            # Of a member the number tells who has the address, and not how much he may have.
            quotas[quota] = known if quota[1] == MEMBER else min(number, known)
    return DesiredLimits(configs, quotas, desired.exclusive)


def differing(stated: DesiredLimits, held: DesiredLimits) -> frozenset[LimitKey]:
    """What brokers are not given as it is stated. The counts of single addresses are left out: they are one key, and
    that one is held says nothing of the others."""
    keys: set[LimitKey] = {*held.configs, *held.quotas}
    keys.discard(COUNT_PER_IP_OVERRIDES)
    return frozenset(key for key in keys if stated.value(key) != held.value(key))


def _stricter(key: str, one: str, other: str) -> str:
    if key != COUNT_PER_IP_OVERRIDES:
        return min(one, other, key=int)
    counts = _overrides(one)
    for address, count in _overrides(other).items():
        counts[address] = min(count, counts.get(address, count))
    return ",".join(sorted(f"{address}:{count}" for address, count in counts.items()))


def _overrides(value: str) -> dict[str, int]:
    """By address, which may have colons of its own."""
    pairs = (entry.rpartition(":") for entry in value.split(",") if entry)
    return {address: int(count) for address, _, count in pairs}
