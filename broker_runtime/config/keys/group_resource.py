"""The configuration of a single group (ConfigResource GROUP, KIP-848): its keys, and the rules between them. Pure.

A key that is not set has the value of the broker key that is its synonym. Names, bounds and messages are Apache
Kafka's. Keys of share groups and of Streams groups are stored and change nothing.
"""

from collections.abc import Mapping
from typing import NamedTuple

from broker_runtime.config.declaring.declaration import Config
from broker_runtime.config.declaring.definition import ConfigKey, Key, Type, UpdateMode
from broker_runtime.config.declaring.unused import unused_keys
from broker_runtime.config.keys.groups import ConsumerGroupConfig, assignment_interval_ms
from broker_runtime.errors import ConfigError
from broker_runtime.remembering import remembered

_Broker = ConsumerGroupConfig
_PARSED_MAX = 1_000
"""Configurations whose parsed values are cached: each heartbeat needs them."""


def _key(name: str, synonym: Key[int], doc: str) -> Key[int]:
    return Key(name, Type.INT, synonym.default, doc, synonym.validator, UpdateMode.CLUSTER_WIDE, synonym=synonym.name)


class GroupResource(Config):
    """Configuration keys that a single group may have, and that change something here."""

    consumer_session_timeout_ms: Key[int] = _key(
        "consumer.session.timeout.ms",
        _Broker.group_consumer_session_timeout_ms,
        "A member of the group that sends no heartbeat for this time is removed.",
    )
    consumer_heartbeat_interval_ms: Key[int] = _key(
        "consumer.heartbeat.interval.ms",
        _Broker.group_consumer_heartbeat_interval_ms,
        "The interval at which members of the group send heartbeats.",
    )
    consumer_assignment_interval_ms: Key[int] = _key(
        "consumer.assignment.interval.ms",
        _Broker.group_consumer_assignment_interval_ms,
        "Shortest time between two assignments of the group.",
    )


GROUP_KEYS: Mapping[str, ConfigKey] = GroupResource.KEYS

_BOUNDS: tuple[tuple[Key[int], Key[int], Key[int]], ...] = (
    (
        GroupResource.consumer_heartbeat_interval_ms,
        _Broker.group_consumer_min_heartbeat_interval_ms,
        _Broker.group_consumer_max_heartbeat_interval_ms,
    ),
    (
        GroupResource.consumer_session_timeout_ms,
        _Broker.group_consumer_min_session_timeout_ms,
        _Broker.group_consumer_max_session_timeout_ms,
    ),
    (
        GroupResource.consumer_assignment_interval_ms,
        _Broker.group_consumer_min_assignment_interval_ms,
        _Broker.group_consumer_max_assignment_interval_ms,
    ),
)
"""A key of a group, and the broker keys with its lowest and its highest value."""


class GroupTimes(NamedTuple):
    """Timeouts and intervals that are in force for one group, in milliseconds."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def group_times(broker: ConsumerGroupConfig, own: Mapping[str, str]) -> GroupTimes:
    """Return the effective times for the configuration `own` of a group.

    A value beyond the bounds of this broker is replaced by the bound: the controller that checked it may have had
    others.
    """
    defaults = GroupTimes(
        broker.group_consumer_session_timeout_ms,
        broker.group_consumer_heartbeat_interval_ms,
        assignment_interval_ms(broker),
    )
    if not own:
        return defaults
    values = _typed(tuple(own.items()))
    found = {
        key.name: min(max(values[key.name], getattr(broker, low.attribute)), getattr(broker, high.attribute))
        for key, low, high in _BOUNDS
        if key.name in values
    }
    return GroupTimes(
        found.get(GroupResource.consumer_session_timeout_ms.name, defaults.session_timeout_ms),
        found.get(GroupResource.consumer_heartbeat_interval_ms.name, defaults.heartbeat_interval_ms),
        found.get(GroupResource.consumer_assignment_interval_ms.name, defaults.assignment_interval_ms),
    )


@remembered(_PARSED_MAX)
def _typed(own: tuple[tuple[str, str], ...]) -> Mapping[str, int]:
    """Return the parsed values, without those of another broker version that this one does not understand."""
    values: dict[str, int] = {}
    for name, text in own:
        try:
            value = GROUP_KEYS[name].parse(text) if name in GROUP_KEYS else None
        except ConfigError:
            continue
        if isinstance(value, int):
            values[name] = value
    return values


def group_resource_problem(own: Mapping[str, str], broker: ConsumerGroupConfig) -> str | None:
    """Return the first fault of the configuration of a group; None for a valid one."""
    for name in own:
        if name not in GROUP_KEYS and name not in unused_keys("group"):
            return f"Unknown group config name: {name}"
    try:
        for name, text in own.items():
            (GROUP_KEYS.get(name) or unused_keys("group")[name]).parse(text)
    except ConfigError as error:
        return str(error)
    return _value_problem(_typed(tuple(own.items())), broker)


def _value_problem(values: Mapping[str, int], broker: ConsumerGroupConfig) -> str | None:
    for key, low, high in _BOUNDS:
        value = values.get(key.name)
        if value is not None and value < getattr(broker, low.attribute):
            return f"{key.name} must be greater than or equal to {low.name}"
        if value is not None and value > getattr(broker, high.attribute):
            return f"{key.name} must be less than or equal to {high.name}"
    session, heartbeat = GroupResource.consumer_session_timeout_ms, GroupResource.consumer_heartbeat_interval_ms
    lasts_ms = values.get(session.name, broker.group_consumer_session_timeout_ms)
    if lasts_ms <= values.get(heartbeat.name, broker.group_consumer_heartbeat_interval_ms):
        return f"{session.name} must be greater than {heartbeat.name}"
    return None
