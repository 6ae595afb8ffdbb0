"""Limits on brokers where other clients set limits too: the texts that name the operator's, and a shared key.

Pure. The operator keeps a text for each limit that it sets, and lifts only these when a quota is deleted or loses a
field. `max.connections.per.ip.overrides` is one key for all addresses: entries of other clients stay in it.
"""

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, replace

from sluicegate_operator.planning.limits.limits import (
    CONNECTION_CREATION_RATE,
    COUNT_PER_IP_OVERRIDES,
    IP,
    DesiredLimits,
    LimitKey,
    ip_rate,
)

Mine = frozenset[str]
"""A text for each limit that the operator has set.

Examples: `max.connections`, `connection_creation_rate ip 10.0.0.1` (without an address: the default of all addresses),
and `max.connections.per.ip.overrides 10.0.0.1`.
"""

_RATE_OF = f"{CONNECTION_CREATION_RATE} {IP}"


def mine_of(desired: DesiredLimits) -> Mine:
    """Return all limits that ConnectionQuotas ask for, as the texts by which a status remembers them."""
    texts = {key for key in desired.configs if key != COUNT_PER_IP_OVERRIDES}
    texts |= {f"{COUNT_PER_IP_OVERRIDES} {_address(entry)}" for entry in _entries(_overrides(desired))}
    for entity, name in desired.quotas:
        address = dict(entity).get(IP)
        texts.add(f"{name} {IP}" + (f" {address}" if address is not None else ""))
    return frozenset(texts)


def those_of(desired: DesiredLimits, mine: Mine) -> DesiredLimits:
    """Return the limits of `desired` that are in `mine`."""
    counted, keys = overridden(mine), keys_of(mine)
    entries = [entry for entry in _entries(_overrides(desired)) if _address(entry) in counted]
    configs = {key: value for key, value in desired.configs.items() if key in mine}
    if entries:
        configs[COUNT_PER_IP_OVERRIDES] = ",".join(entries)
    quotas = {key: value for key, value in desired.quotas.items() if key in keys}
    return replace(desired, configs=configs, quotas=quotas)


def keys_of(mine: Mine) -> frozenset[LimitKey]:
    """Return the limits that these texts of a status name, as brokers name them."""
    return frozenset(_key(text) for text in mine)


def those_with(mine: Mine, keys: Set[LimitKey]) -> Mine:
    """Return the texts of `mine` that stand for one of the limits `keys`."""
    return frozenset(text for text in mine if _key(text) in keys)


def _key(text: str) -> LimitKey:
    if text == _RATE_OF:
        return ip_rate(None)
    if text.startswith(f"{_RATE_OF} "):
        return ip_rate(text.removeprefix(f"{_RATE_OF} "))
    return text.partition(" ")[0]


def overridden(mine: Mine) -> frozenset[str]:
    """Return the addresses whose entry in Kafka's key `max.connections.per.ip.overrides` the operator has set."""
    prefix = f"{COUNT_PER_IP_OVERRIDES} "
    return frozenset(text.removeprefix(prefix) for text in mine if text.startswith(prefix))


@dataclass(frozen=True, slots=True)
class Overrides:
    """The values that brokers have for Kafka's key `max.connections.per.ip.overrides`.

    `default`: the cluster's, None if it has none. `own`: those of single brokers. `in_files`: those in the properties
    of brokers, which a dynamic value hides.
    """

    default: str | None = None
    own: Sequence[str] = ()
    in_files: Sequence[str] = ()


def beside_others(desired: DesiredLimits, addresses: Collection[str], seen: Overrides) -> DesiredLimits:
    """Return `desired` with the counts of addresses that other clients of Kafka set; those of `addresses` are ours.

    A broker's own value would hide the default. It is removed, and its entries go into the default. If brokers differ,
    the strictest count stays.
    """
    if not addresses:
        return desired
    wanted, files = _counts([_overrides(desired)]), _counts(seen.in_files)
    now = _counts([*(seen.in_files if seen.default is None else [seen.default]), *seen.own])
    back = set(addresses) - wanted.keys()
    others = {address: count for address, count in now.items() if address not in addresses}
    others |= {address: count for address, count in files.items() if address in back}
    configs = {key: value for key, value in desired.configs.items() if key != COUNT_PER_IP_OVERRIDES}
    if wanted or others != files:
        all_of = others | wanted
        as_is = seen.default is not None and _counts([seen.default]) == all_of
        entries = [f"{address}:{count}" for address, count in all_of.items()]
        configs[COUNT_PER_IP_OVERRIDES] = seen.default if seen.default and as_is else ",".join(entries)
    return replace(desired, configs=configs)


def _counts(values: Iterable[str]) -> dict[str, int]:
    """Return the strictest count of each address, in the order of the values."""
    counts: dict[str, int] = {}
    for entry in (entry for value in values for entry in _entries(value)):
        address, count = _address(entry), int(entry.rpartition(":")[2])
        counts[address] = min(count, counts.get(address, count))
    return counts


def _overrides(desired: DesiredLimits) -> str:
    return desired.configs.get(COUNT_PER_IP_OVERRIDES, "")


def _entries(value: str) -> list[str]:
    return [entry.strip() for entry in value.split(",") if entry.strip()]


def _address(entry: str) -> str:
    """Return the address of `address:count`. An address may contain colons."""
    return entry.rpartition(":")[0]
