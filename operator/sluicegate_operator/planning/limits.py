"""Limits as brokers keep them: what is wanted, what one broker says, and which changes bring it there.

A limit has one name on all brokers, its LimitKey: a key of the cluster's default dynamic configuration, or a key of a
client quota entity (KIP-546). Whatever governs connections is a value under such a name, so that sending, reading back
and judging know no kinds of quotas. It knows neither the admin client nor time. Limits are set as the cluster's
default, so a broker that is away learns them (or that they are lifted) when it comes back; a broker's own override is
somebody's hand and is taken away.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from sluicegate_operator.api.config_keys import LIMIT_KEYS, LISTENER_PREFIX

RATE = "max.connection.creation.rate"
COUNT = "max.connections"
COUNT_PER_IP = "max.connections.per.ip"
COUNT_PER_IP_OVERRIDES = "max.connections.per.ip.overrides"

IP = "ip"
CONNECTION_CREATION_RATE = "connection_creation_rate"

Entity = tuple[tuple[str, str | None], ...]
"""Type and name of each component; a name of None is the default of all names."""
QuotaKey = tuple[Entity, str]
"""A client quota: whose, and which."""
LimitKey = str | QuotaKey


def is_limit_key(key: str) -> bool:
    """Whether the operator owns this dynamic broker key of a bundled cluster."""
    return key in LIMIT_KEYS or (key.startswith(LISTENER_PREFIX) and key.endswith((f".{RATE}", f".{COUNT}")))


def ip_rate(address: str | None) -> QuotaKey:
    """The rate of one address (KIP-612); None is the default of all addresses."""
    return ((IP, address),), CONNECTION_CREATION_RATE


def ip_rates(rates: Mapping[str | None, float]) -> dict[QuotaKey, float]:
    return {ip_rate(address): rate for address, rate in rates.items()}


@dataclass(frozen=True, slots=True)
class DesiredLimits:
    """`configs`: the cluster's default dynamic broker configuration, limit keys only. `exclusive`: every other limit is
    lifted."""

    configs: Mapping[str, str] = field(default_factory=dict)
    quotas: Mapping[QuotaKey, float] = field(default_factory=dict)
    exclusive: bool = True

    def value(self, key: LimitKey) -> str | float | None:
        return self.configs.get(key) if isinstance(key, str) else self.quotas.get(key)


@dataclass(frozen=True, slots=True)
class ObservedLimits:
    """What one broker says. `default` and `own` are its dynamic configuration of the two levels (DescribeConfigs,
    sources DYNAMIC_DEFAULT_BROKER_CONFIG and DYNAMIC_BROKER_CONFIG); keys that are no limits do no harm. `listeners`:
    the names of those that it has open, None where it was not asked."""

    default: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    quotas: Mapping[QuotaKey, float] = field(default_factory=dict)
    listeners: frozenset[str] | None = None

    def in_force(self, key: str) -> str | None:
        return self.own.get(key, self.default.get(key))


@dataclass(frozen=True, slots=True)
class Missing:
    """What one broker lacks: `limits` are not as wanted, `own` are limits that it has overridden for itself."""

    limits: frozenset[LimitKey] = frozenset()
    own: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.limits or self.own)

    @property
    def keys(self) -> frozenset[LimitKey]:
        return self.limits | self.own


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

    @property
    def keys(self) -> frozenset[LimitKey]:
        return frozenset((*self.set, *self.delete))


@dataclass(frozen=True, slots=True)
class SetQuota:
    """One entry of AlterClientQuotas; a value of None removes it."""

    key: QuotaKey
    value: float | None

    def __str__(self) -> str:
        """For people."""
        return f"{quota_words(self.key)} {'lifted' if self.value is None else f'{self.value:g}'}"

    @property
    def keys(self) -> frozenset[LimitKey]:
        return frozenset((self.key,))


Action = SetBrokerConfigs | SetQuota
"""One request, or one entry of a request whose entries are answered one by one."""


@dataclass(frozen=True, slots=True)
class Lifted:
    """Which limits that nobody wants are taken away: all of them, or only those that were `released`."""

    everything: bool
    released: frozenset[LimitKey] = frozenset()

    def __contains__(self, key: LimitKey) -> bool:
        return key in self.released or (self.everything and (not isinstance(key, str) or is_limit_key(key)))


def missing(
    desired: DesiredLimits, seen: ObservedLimits, lifted: Lifted, asked: Iterable[LimitKey] | None = None
) -> Missing:
    """The one judgement of what a broker was read to have. Of the keys that it was `asked` for; None: of all."""
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
            # An override of a key that we set hides our value, whoever owns the rest of the cluster.
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
    """Actions that set `limits` as they are desired, and lift those that are not desired. `own`: keys that a broker has
    overridden for itself, and that are to be taken away there."""
    actions: list[Action] = []
    if configs := sorted(key for key in limits if isinstance(key, str)):
        wanted = {key: desired.configs[key] for key in configs if key in desired.configs}
        actions.append(SetBrokerConfigs(None, wanted, tuple(key for key in configs if key not in wanted)))
    taken = sorted((own or {}).items())
    actions += [SetBrokerConfigs(broker_id, {}, tuple(sorted(keys))) for broker_id, keys in taken if keys]
    quotas = sorted((key for key in limits if not isinstance(key, str)), key=_in_order)
    return actions + [SetQuota(key, desired.quotas.get(key)) for key in quotas]


def changes_of(desired: DesiredLimits, lacking: Mapping[int, Missing]) -> list[Action]:
    """What brings every broker to `desired`, by what each lacks: one change for all that lack it."""
    limits = frozenset[LimitKey]().union(*(each.limits for each in lacking.values()))
    return changes(desired, limits, {broker_id: each.own for broker_id, each in lacking.items()})


def _in_order(key: QuotaKey) -> tuple[tuple[tuple[str, str], ...], str]:
    return tuple((kind, name or "") for kind, name in key[0]), key[1]


def quota_words(key: QuotaKey) -> str:
    """For people: address 10.0.0.1's rate."""
    entity, name = key
    if key == ip_rate(None):
        return "the rate of all addresses"
    whose = ", ".join("address" * (kind == IP) + kind * (kind != IP) + f" {of or 'of all'}" for kind, of in entity)
    return f"{'the rate' if name == CONNECTION_CREATION_RATE else name} of {whose}"


def missing_words(desired: DesiredLimits, lacks: Missing) -> list[str]:
    """What is still to be changed, each limit for itself, in words for people."""
    steps = [f"this broker's own {key} is still set" for key in lacks.own]
    for key in lacks.limits:
        wanted = desired.value(key)
        if isinstance(key, str):
            steps.append(f"{key} is still set" if wanted is None else f"{key} is not {wanted}")
        else:
            steps.append(f"{quota_words(key)} is {'to be lifted' if wanted is None else f'not {wanted:g}'}")
    return sorted(steps)
