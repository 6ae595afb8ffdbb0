"""Converts the limits of a broker and of its listeners to rows and back. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from connection_limits import keys
from connection_limits.recorded.rows import IP, LimitEvent, LimitPlace, LimitRow, RateKind, ip_entity
from connection_limits.settings import UNLIMITED, IpAction, Objective, QuotaSettings, Strategy

Values = Mapping[LimitPlace, int | str]
"""Values by place; a limit that is not set has none."""

_CLUSTER: Final = "cluster"
"""Value of the scope of a rate of all brokers together."""
_LIMITS: Final = {
    keys.MAX_CONNECTIONS: "max_connections",
    keys.MAX_CONNECTION_CREATION_RATE: "max_connection_creation_rate",
    keys.MAX_CONNECTIONS_PER_IP: "max_connections_per_ip",
    keys.MAX_CONNECTION_CREATION_RATE_PER_IP: "max_connection_creation_rate_per_ip",
}
_NUMBERS: Final = {
    keys.QUOTA_WINDOW_NUM: "quota_window_num",
    keys.QUOTA_WINDOW_SIZE_SECONDS: "quota_window_size_s",
    keys.TRACKED_IPS_MAX: "max_tracked_ips",
}
_OF_LISTENERS: Final = {
    keys.MAX_CONNECTIONS: "listener_max_connections",
    keys.MAX_CONNECTION_CREATION_RATE: "listener_max_connection_creation_rate",
}


def values_of(settings: QuotaSettings) -> dict[LimitPlace, int | str]:
    """Return the values that decide about connections: without those of proxies and of closing sockets."""
    found: dict[LimitPlace, int | str] = {
        LimitPlace(keys.CONNECTION_QUOTA_STRATEGY): settings.strategy.value,
        LimitPlace(keys.CONNECTION_QUOTA_IP_ACTION): settings.ip_action.value,
        LimitPlace(keys.COUNT_ABANDONED): int(settings.count_abandoned),
    }
    for key, name in _NUMBERS.items():
        found[LimitPlace(key)] = getattr(settings, name)
    for key, name in _LIMITS.items():
        if getattr(settings, name) < UNLIMITED:
            found[LimitPlace(key)] = getattr(settings, name)
    if settings.inter_broker_listener:
        found[LimitPlace(keys.INTER_BROKER_LISTENER_NAME)] = settings.inter_broker_listener
    for ip, count in settings.max_connections_per_ip_overrides.items():
        found[LimitPlace(keys.MAX_CONNECTIONS_PER_IP_OVERRIDES, ip_entity(ip))] = count
    for base, name in _OF_LISTENERS.items():
        for listener, value in getattr(settings, name).items():
            found[LimitPlace(keys.of_listener(listener, base), None, listener)] = value
    if settings.cluster_wide:
        found[LimitPlace(keys.CONNECTION_QUOTA_SCOPE)] = _CLUSTER
    for listener in sorted(settings.cluster_wide_listeners):
        found[LimitPlace(keys.of_listener(listener, keys.CONNECTION_QUOTA_SCOPE), None, listener)] = _CLUSTER
    if settings.objective is not None:
        found |= _of_objective(settings.objective)
    for listener, objective in settings.listener_objectives.items():
        found |= _of_objective(objective, listener)
    return found


def _of_objective(objective: Objective, listener: str | None = None) -> Iterator[tuple[LimitPlace, int]]:
    for base, value in (
        (keys.CONNECTION_QUOTA_ADAPTIVE_P99, objective.p99_ms),
        (keys.CONNECTION_QUOTA_ADAPTIVE_MIN_RATE, objective.min_rate),
    ):
        yield LimitPlace(base if listener is None else keys.of_listener(listener, base), None, listener), value


def settings_of(values: Values) -> QuotaSettings:
    """Return the settings with these values. Raises ValueError for a value of another type."""
    given: dict[str, int] = {}
    counts: dict[str, int] = {}
    rates: dict[str, int] = {}
    overrides: dict[str, int] = {}
    objectives: dict[str | None, dict[str, int]] = {}
    cluster_wide: set[str | None] = set()
    for (key, entity, listener), value in values.items():
        base = key if listener is None else key.removeprefix(keys.of_listener(listener, ""))
        if base == keys.CONNECTION_QUOTA_SCOPE:
            if value == _CLUSTER:
                cluster_wide.add(listener)
        elif base in (keys.CONNECTION_QUOTA_ADAPTIVE_P99, keys.CONNECTION_QUOTA_ADAPTIVE_MIN_RATE):
            objectives.setdefault(listener, {})[base] = int(value)
        elif listener is not None and base == keys.MAX_CONNECTIONS:
            counts[listener] = int(value)
        elif listener is not None and base == keys.MAX_CONNECTION_CREATION_RATE:
            rates[listener] = int(value)
        elif entity is not None:
            overrides[entity.removeprefix(IP)] = int(value)
        elif base in _LIMITS or base in _NUMBERS:
            given[_LIMITS.get(base) or _NUMBERS[base]] = int(value)
    by_target = {target: _objective(found) for target, found in objectives.items()}
    return QuotaSettings(
        **given,  # type: ignore[arg-type]
        listener_max_connections=counts,
        listener_max_connection_creation_rate=rates,
        objective=by_target.get(None),
        cluster_wide=None in cluster_wide,
        cluster_wide_listeners=frozenset(name for name in cluster_wide if name is not None),
        listener_objectives={name: found for name, found in by_target.items() if name is not None},
        max_connections_per_ip_overrides=overrides,
        inter_broker_listener=str(values.get(LimitPlace(keys.INTER_BROKER_LISTENER_NAME), "")),
        strategy=Strategy(values.get(LimitPlace(keys.CONNECTION_QUOTA_STRATEGY), Strategy.WINDOWED.value)),
        ip_action=IpAction(values.get(LimitPlace(keys.CONNECTION_QUOTA_IP_ACTION), IpAction.DELAY.value)),
        count_abandoned=values.get(LimitPlace(keys.COUNT_ABANDONED)) == 1,
    )


def _objective(found: Mapping[str, int]) -> Objective:
    return Objective(
        found.get(keys.CONNECTION_QUOTA_ADAPTIVE_P99, 1), found.get(keys.CONNECTION_QUOTA_ADAPTIVE_MIN_RATE, 1)
    )


def row_of(event: LimitEvent, place: LimitPlace, value: int | str | None) -> LimitRow:
    """Return the row of a value that is configured."""
    number, text = (None, value) if isinstance(value, str) else (value, None)
    return LimitRow(event, RateKind.CONFIGURED, *place, None, number, text)


def changed_settings(before: QuotaSettings, after: QuotaSettings) -> list[LimitRow]:
    """Return the rows of a change of the settings: values that are new, different or gone."""
    old, new = values_of(before), values_of(after)
    found = [row_of(LimitEvent.SET, place, value) for place, value in new.items() if old.get(place) != value]
    return found + [row_of(LimitEvent.REMOVED, place, None) for place in old if place not in new]
