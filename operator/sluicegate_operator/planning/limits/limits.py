"""Limits on brokers: the wanted ones, those of one broker, and the changes that bring it there.

A limit has one name on all brokers, its LimitKey: a key of the cluster's default dynamic configuration, or a key of a
client quota entity (KIP-546). Every setting that governs connections is a value under such a name, so sending, reading
back and comparing do not depend on the kind of quota. The module knows neither the admin client nor time.

Limits are set as the cluster's default, so an offline broker learns them, or their removal, when it reconnects. A
broker's own override was set by another client and is removed.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from sluicegate_operator.api.configs.config_keys import (
    ADAPTIVE_MIN_RATE,
    ADAPTIVE_P99,
    LIMIT_KEYS,
    LISTENER_PREFIX,
    QUOTA_SCOPE,
)

RATE = "max.connection.creation.rate"
COUNT = "max.connections"
COUNT_PER_IP = "max.connections.per.ip"
COUNT_PER_IP_OVERRIDES = "max.connections.per.ip.overrides"

SCOPE_OF_CLUSTER = "cluster"
"""Value of `connection.quota.scope` for a rate of all brokers together."""

IP = "ip"
CONNECTION_CREATION_RATE = "connection_creation_rate"

_OF_LISTENERS = tuple(f".{key}" for key in (RATE, COUNT, ADAPTIVE_P99, ADAPTIVE_MIN_RATE, QUOTA_SCOPE))

Entity = tuple[tuple[str, str | None], ...]
"""A client quota's entity: type and name of each component. A name of None is the default of all names."""
QuotaKey = tuple[Entity, str]
"""A client quota: its entity and its name."""
LimitKey = str | QuotaKey


def is_limit_key(key: str) -> bool:
    """Return whether the operator owns this dynamic broker key of a bundled cluster."""
    return key in LIMIT_KEYS or (key.startswith(LISTENER_PREFIX) and key.endswith(_OF_LISTENERS))


def is_scope(key: str) -> bool:
    """Return whether the key says whose the rate of a listener, or of the broker, is."""
    return key == QUOTA_SCOPE or (key.startswith(LISTENER_PREFIX) and key.endswith(f".{QUOTA_SCOPE}"))


def ip_rate(address: str | None) -> QuotaKey:
    """Return the key of one address's connection rate (KIP-612); None is the default of all addresses."""
    return ((IP, address),), CONNECTION_CREATION_RATE


def ip_rates(rates: Mapping[str | None, float]) -> dict[QuotaKey, float]:
    return {ip_rate(address): rate for address, rate in rates.items()}


@dataclass(frozen=True, slots=True)
class DesiredLimits:
    """The wanted limits of a cluster.

    `configs`: the cluster's default dynamic broker configuration, limit keys only. `exclusive`: every other limit is
    lifted.
    """

    configs: Mapping[str, str] = field(default_factory=dict)
    quotas: Mapping[QuotaKey, float] = field(default_factory=dict)
    exclusive: bool = True

    def value(self, key: LimitKey) -> str | float | None:
        return self.configs.get(key) if isinstance(key, str) else self.quotas.get(key)


@dataclass(frozen=True, slots=True)
class ObservedLimits:
    """The limits that one broker reports, and its open listeners.

    `default` and `own` are its dynamic configuration on the two levels (DescribeConfigs, sources
    DYNAMIC_DEFAULT_BROKER_CONFIG and DYNAMIC_BROKER_CONFIG); they may contain other keys. `listeners`: the names of its
    open listeners, None if they were not requested.
    """

    default: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    quotas: Mapping[QuotaKey, float] = field(default_factory=dict)
    listeners: frozenset[str] | None = None

    def in_force(self, key: str) -> str | None:
        return self.own.get(key, self.default.get(key))


@dataclass(frozen=True, slots=True)
class Missing:
    """The limits that one broker lacks.

    `limits` differ from the wanted ones, and `own` are its own overrides.
    """

    limits: frozenset[LimitKey] = frozenset()
    own: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.limits or self.own)

    @property
    def keys(self) -> frozenset[LimitKey]:
        return self.limits | self.own


@dataclass(frozen=True, slots=True)
class SetBrokerConfigs:
    """One IncrementalAlterConfigs request of one broker's configuration; None is the cluster's default."""

    broker_id: int | None
    set: Mapping[str, str]
    delete: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a sentence for users."""
        steps = [f"{key}={value}" for key, value in sorted(self.set.items())]
        steps += [f"{key} removed" for key in sorted(self.delete)]
        return f"{'all brokers' if self.broker_id is None else f'broker {self.broker_id}'}: {', '.join(steps)}"

    @property
    def keys(self) -> frozenset[LimitKey]:
        return frozenset((*self.set, *self.delete))


@dataclass(frozen=True, slots=True)
class SetQuota:
    """One entry of AlterClientQuotas. A value of None removes the quota."""

    key: QuotaKey
    value: float | None

    def __str__(self) -> str:
        """Return a sentence for users."""
        return f"{quota_words(self.key)} {'lifted' if self.value is None else f'{self.value:g}'}"

    @property
    def keys(self) -> frozenset[LimitKey]:
        return frozenset((self.key,))


Action = SetBrokerConfigs | SetQuota
"""A change of limits: one request, or one entry of a request whose entries are answered separately."""


@dataclass(frozen=True, slots=True)
class Lifted:
    """The unwanted limits to remove: all of them, or only those that were `released`."""

    everything: bool
    released: frozenset[LimitKey] = frozenset()

    def __contains__(self, key: LimitKey) -> bool:
        return key in self.released or (self.everything and (not isinstance(key, str) or is_limit_key(key)))


def missing(
    desired: DesiredLimits, seen: ObservedLimits, lifted: Lifted, asked: Iterable[LimitKey] | None = None
) -> Missing:
    """Compare a broker's limits with the desired ones; every comparison uses this function.

    Only the keys that the broker was `asked` for are compared; None: all keys.
    """
    limits: set[LimitKey] = set()
    own: set[str] = set()
    if asked is None:
        asked = {*desired.configs, *seen.default, *seen.own, *desired.quotas, *seen.quotas}
    for key in asked:
        if isinstance(key, str):
            wanted = desired.configs.get(key)
            if wanted is None and key not in lifted:
                continue
            if seen.default.get(key) != wanted:
                limits.add(key)
            # An override of a key that the operator sets hides its value, even if the operator does not own the other
            # limits.
            if key in seen.own:
                own.add(key)
        else:
            rate = desired.quotas.get(key)
            if seen.quotas.get(key) != rate and (rate is not None or key in lifted):
                limits.add(key)
    return Missing(frozenset(limits), frozenset(own))


def changes(
    desired: DesiredLimits, limits: Collection[LimitKey], own: Mapping[int, Collection[str]] | None = None
) -> list[Action]:
    """Return the actions that set `limits` as desired, and lift those that are not desired.

    `own`: by broker, the overrides to remove on that broker.
    """
    actions: list[Action] = []
    if configs := sorted(key for key in limits if isinstance(key, str)):
        wanted = {key: desired.configs[key] for key in configs if key in desired.configs}
        actions.append(SetBrokerConfigs(None, wanted, tuple(key for key in configs if key not in wanted)))
    taken = sorted((own or {}).items())
    actions += [SetBrokerConfigs(broker_id, {}, tuple(sorted(keys))) for broker_id, keys in taken if keys]
    quotas = sorted((key for key in limits if not isinstance(key, str)), key=_in_order)
    return actions + [SetQuota(key, desired.quotas.get(key)) for key in quotas]


def changes_of(desired: DesiredLimits, lacking: Mapping[int, Missing]) -> list[Action]:
    """Return the actions that bring every broker to `desired`.

    All brokers that lack the same limit get it by one change.
    """
    limits = frozenset[LimitKey]().union(*(each.limits for each in lacking.values()))
    return changes(desired, limits, {broker_id: each.own for broker_id, each in lacking.items()})


def _in_order(key: QuotaKey) -> tuple[tuple[tuple[str, str], ...], str]:
    return tuple((kind, name or "") for kind, name in key[0]), key[1]


def quota_words(key: QuotaKey) -> str:
    """Describe a quota for users, for example: the rate of address 10.0.0.1."""
    entity, name = key
    if key == ip_rate(None):
        return "the rate of all addresses"
    whose = ", ".join("address" * (kind == IP) + kind * (kind != IP) + f" {of or 'of all'}" for kind, of in entity)
    return f"{'the rate' if name == CONNECTION_CREATION_RATE else name} of {whose}"


def missing_words(desired: DesiredLimits, lacks: Missing) -> list[str]:
    """Describe for users what is still to be changed, one text for each limit."""
    steps = [f"this broker's own {key} is still set" for key in lacks.own]
    for key in lacks.limits:
        wanted = desired.value(key)
        if isinstance(key, str):
            steps.append(f"{key} is still set" if wanted is None else f"{key} is not {wanted}")
        else:
            steps.append(f"{quota_words(key)} is {'to be lifted' if wanted is None else f'not {wanted:g}'}")
    return sorted(steps)
