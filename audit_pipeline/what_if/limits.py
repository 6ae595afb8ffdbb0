"""The limits to try, in the form in which brokers have them: configuration keys and client quotas. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network
from typing import Any

from audit_pipeline.errors import BadUseError
from audit_pipeline.what_if.attempts import Limit
from audit_pipeline.what_if.limits_in_force import Change
from connection_limits import keys
from connection_limits.groups.connection_group import ANYBODY, AddressGroupLimits
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import UNLIMITED, IpAction, QuotaSettings, Strategy

_LISTENER = "listener.name."
_IP = "ip"
_FIELDS: Mapping[str, str] = {
    keys.MAX_CONNECTIONS: "max_connections",
    keys.MAX_CONNECTION_CREATION_RATE: "max_connection_creation_rate",
    keys.MAX_CONNECTIONS_PER_IP: "max_connections_per_ip",
    keys.MAX_CONNECTION_CREATION_RATE_PER_IP: "max_connection_creation_rate_per_ip",
    keys.QUOTA_WINDOW_NUM: "quota_window_num",
    keys.QUOTA_WINDOW_SIZE_SECONDS: "quota_window_size_s",
}
_WINDOW = (keys.QUOTA_WINDOW_NUM, keys.QUOTA_WINDOW_SIZE_SECONDS)
_RECOUNTED = 10_000


@dataclass(frozen=True, slots=True)
class LimitsToTry:
    """The connection limits that `what-if` tries on one broker's recorded connections.

    `listener_limits` has (count, rate) by lower-case listener, None for inherited.

    `ip_rates` has rates by address, None for the default. `members` has addresses and ranges by group. `names` has the
    ConnectionQuota that sets a limit, as namespace/name, by key and entity.
    """

    settings: QuotaSettings = field(default_factory=QuotaSettings)
    listener_limits: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    ip_rates: Mapping[str | None, int] = field(default_factory=dict)
    groups: Mapping[str, AddressGroupLimits] = field(default_factory=dict)
    members: Mapping[str, Sequence[str]] = field(default_factory=dict)
    names: Mapping[tuple[str, str | None], str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """Sentences about quotas that are not tried."""

    @property
    def are_recorded(self) -> bool:
        """Whether the broker decided under these limits."""
        return False

    def settings_for(self, listeners: Sequence[str]) -> QuotaSettings:
        """Return the settings with the limits of these listeners: keys have their names in lower case."""
        own = {name: self.listener_limits.get(name.lower(), (None, None)) for name in listeners}
        return replace(
            self.settings,
            listener_max_connections={name: count for name, (count, _) in own.items() if count is not None},
            listener_max_connection_creation_rate={name: rate for name, (_, rate) in own.items() if rate is not None},
        )

    @property
    def changes(self) -> Sequence[Change]:
        """None: the limits to try apply from the start to the end."""
        return ()

    def begin_us(self, began_us: int) -> int:
        """Return when the limits come into force: with the first event."""
        return began_us

    def open_at_start(self, listeners: Sequence[str]) -> Sequence[str]:
        """Return the listeners that are open at the start: all."""
        return listeners

    def listener_found(self, quotas: ConnectionQuotas, listeners: Sequence[str], now_ms: int) -> None:
        """Apply the limits of a listener that is found later than the others: keys have names in lower case."""
        quotas.update(self.settings_for(listeners), now_ms)

    def apply(self, change: Change, quotas: ConnectionQuotas, now_ms: int) -> None:
        """Do nothing: no limit changes."""

    def enforce(self, quotas: ConnectionQuotas, listeners: Sequence[str], now_ms: int) -> None:
        """Set all of these connection limits in `quotas`. Raises InvalidLimitError."""
        quotas.update(self.settings_for(listeners), now_ms)
        for ip, rate in self.ip_rates.items():
            quotas.addresses.update_rate(ip, rate, now_ms)
        groups = quotas.addresses.groups
        for name, limits in self.groups.items():
            groups.set_limits(name, limits, now_ms)
            for member in self.members.get(name, ()):
                groups.add_member(name, member, now_ms, ANYBODY)
        while groups.recount(_RECOUNTED):
            pass

    def name_of(self, limit: Limit) -> str | None:
        """Return the ConnectionQuota of a limit, as namespace/name."""
        return limit.quota or self.names.get((limit.key, limit.entity))

    @property
    def quotas(self) -> set[str]:
        """Return the ConnectionQuotas that enforce a limit, as namespace/name."""
        return {*self.names.values(), *(name for name, limits in self.groups.items() if not limits.observe)}

    @property
    def has_addresses(self) -> bool:
        """Return whether a limit is on certain addresses or ranges.

        A log with hashed addresses cannot identify them.
        """
        of_address = any(ip is not None for ip in self.ip_rates)
        return of_address or bool(self.groups) or bool(self.settings.max_connections_per_ip_overrides)

    def without_addresses(self) -> "LimitsToTry":
        """Return the limits that apply to every address."""
        of_all: dict[str | None, int] = {ip: rate for ip, rate in self.ip_rates.items() if ip is None}
        settings = replace(self.settings, max_connections_per_ip_overrides={})
        return replace(self, settings=settings, ip_rates=of_all, groups={}, members={})


def limits_in(text: str) -> LimitsToTry:
    """Read the document from JSON. Raises BadUseError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadUseError(f"the limits to try are not JSON: {error}") from None
    return read_limits(document)


def read_limits(given: Any) -> LimitsToTry:
    """Read the limits in the document that `sluicegate what-if` passes on. Raises BadUseError.

    `configs` has dynamic and static configuration by key. `quotas` are client quotas: entity, key and value. `names`
    has key, entity and quota. `notes` are sentences.
    """
    parts = {"configs": dict, "quotas": list, "names": list, "notes": list}
    if not isinstance(given, dict) or any(not isinstance(given.get(name), kind) for name, kind in parts.items()):
        raise BadUseError(
            "the limits to try need configs (an object), and quotas, names and notes (lists), as `sluicegate what-if "
            "--print-limits` prints them"
        )
    try:
        settings, of_listeners = _settings(given["configs"])
        rates, groups, members = _quotas(given["quotas"])
        names = {(each["key"], each["entity"]): str(each["quota"]) for each in given["names"]}
        notes = tuple(map(str, given["notes"]))
        limits = LimitsToTry(settings, of_listeners, rates, groups, members, names, notes)
        # Brokers refuse an address, a range or a rate here as they would refuse it in a request.
        limits.enforce(ConnectionQuotas(settings, 0), (), 0)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise BadUseError(f"the limits to try cannot be read: {type(error).__name__}: {error}") from None
    return limits


def _settings(configs: Mapping[str, str]) -> tuple[QuotaSettings, dict[str, tuple[int | None, int | None]]]:
    numbers: dict[str, Any] = {_FIELDS[key]: _number(key, value) for key, value in configs.items() if key in _FIELDS}
    overrides = configs.get(keys.MAX_CONNECTIONS_PER_IP_OVERRIDES, "")
    pairs = (entry.rpartition(":") for entry in filter(None, overrides.split(",")))
    settings = QuotaSettings(
        **numbers,
        max_connections_per_ip_overrides={ip_address(ip).compressed: _number(ip, count) for ip, _, count in pairs},
        inter_broker_listener=configs.get(keys.INTER_BROKER_LISTENER_NAME, ""),
        strategy=Strategy(configs.get(keys.CONNECTION_QUOTA_STRATEGY, Strategy.WINDOWED.value)),
        ip_action=IpAction(configs.get(keys.CONNECTION_QUOTA_IP_ACTION, IpAction.DELAY.value)),
    )
    of_listeners: dict[str, tuple[int | None, int | None]] = {}
    for key, value in configs.items():
        if key.startswith(_LISTENER):
            listener, _, base = key.removeprefix(_LISTENER).partition(".")
            count, rate = of_listeners.get(listener, (None, None))
            if base == keys.MAX_CONNECTIONS:
                of_listeners[listener] = _number(key, value), rate
            elif base == keys.MAX_CONNECTION_CREATION_RATE:
                of_listeners[listener] = count, _number(key, value)
    return settings, of_listeners


def _number(key: str, value: object) -> int:
    """Return the number of a limit, or of a window, of which a broker has at least one. Raises ValueError."""
    number, least = int(str(value)), 1 if key in _WINDOW else 0
    if number < least:
        raise ValueError(f"{key} must be at least {least}, not {number}")
    return number


def _member(member: object) -> str:
    """Return an address or a range. Raises ValueError if it is neither."""
    ip_network(str(member))
    return str(member)


def _quotas(
    quotas: Sequence[Mapping[str, Any]],
) -> tuple[dict[str | None, int], dict[str, AddressGroupLimits], dict[str, list[str]]]:
    rates: dict[str | None, int] = {}
    values: dict[str, dict[str, float]] = {}
    members: dict[str, list[str]] = {}
    for quota in quotas:
        entity, key, value = quota["entity"], quota["key"], float(quota["value"])
        group = entity.get(keys.CONNECTION_GROUP)
        if group is None:
            rates[entity[_IP]] = int(value)
        elif _IP in entity:
            members.setdefault(group, []).append(_member(entity[_IP]))
        else:
            values.setdefault(group, {})[key] = value
    groups = {
        group: AddressGroupLimits(
            int(found.get(keys.ENTITY_RATE, UNLIMITED)),
            int(found.get(keys.ENTITY_COUNT, UNLIMITED)),
            shared=found.get(keys.SHARED) == 1,
            observe=found.get(keys.OBSERVE) == 1,
        )
        for group, found in values.items()
    }
    return rates, groups, members
