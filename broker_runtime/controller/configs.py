"""Altering configurations (KIP-226, KIP-339): what AlterConfigs and IncrementalAlterConfigs may change. Pure.

Broker values that cannot be used are answered with INVALID_REQUEST and topic values with INVALID_CONFIG, as in Kafka.
Unlike Kafka a broker key that nobody knows is refused: a typing mistake should not look like a limit that is set.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import ip_address

from broker_runtime.config import TOPIC_KEYS, ConfigKey, Type, UpdateMode, broker_key, split_listener_prefix
from broker_runtime.config.topic import topic_key
from broker_runtime.controller.image import MetadataImage, ResourceType
from broker_runtime.controller.records import ConfigRecord
from broker_runtime.controller.topic_names import check_topic_name
from broker_runtime.errors import ConfigError, ErrorCode, KafkaError

_LISTENER_LIMITS = ("max.connections", "max.connection.creation.rate")
_OVERRIDES = "max.connections.per.ip.overrides"
_PER_IP = "max.connections.per.ip"
_HOST = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?")
VALUE_LENGTH_MAX = 32_767
"""As in Kafka's controller, whose records hold a value of at most so many characters."""


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Change:
    key: str
    operation: int
    value: str | None


Resource = tuple[int, str]
"""(resource type, name)"""


def alter_incrementally(resource: Resource, changes: Sequence[Change], image: MetadataImage) -> Sequence[ConfigRecord]:
    before = _existing(resource, image)
    _check_keys([change.key for change in changes])
    nulls = [c.key for c in changes if c.value is None and c.operation != Operation.DELETE]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
    after = dict(before)
    for change in changes:
        value = _changed(resource, change, before)
        if value is None:
            after.pop(change.key, None)
        else:
            after[change.key] = value
    _check(resource, {c.key: after.get(c.key) for c in changes}, after, image)
    return _records(resource, before, after)


def replace_all(
    resource: Resource, configs: Sequence[tuple[str, str | None]], image: MetadataImage
) -> Sequence[ConfigRecord]:
    """AlterConfigs: what is not named falls back to its default."""
    before = _existing(resource, image)
    _check_keys([key for key, _ in configs])
    nulls = [key for key, value in configs if value is None]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
    after = {key: value for key, value in configs if value is not None}
    _check(resource, after, after, image)
    return _records(resource, before, after)


def check_topic_configs(configs: Sequence[tuple[str, str | None]]) -> Mapping[str, str]:
    """For a topic that is created: the same configurations, checked."""
    found: dict[str, str] = {}
    for key, value in configs:
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {key}")
        found[key] = value
    _check_topic(found)
    return found


def _existing(resource: Resource, image: MetadataImage) -> Mapping[str, str]:
    """The resource's dynamic configuration; raises KafkaError when there is no such resource."""
    kind, name = resource
    if kind == ResourceType.TOPIC:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(name)
        if name not in image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return image.topic_configs(name)
    if kind == ResourceType.BROKER:
        return image.broker_configs(_broker_id(name, image))
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _broker_id(name: str, image: MetadataImage) -> int | None:
    if not name:
        return None
    try:
        broker_id = int(name)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}") from None
    if str(broker_id) != name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be written plainly, but it is: {name}")
    if broker_id not in image.brokers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {broker_id} found.")
    return broker_id


def _check_keys(keys: Sequence[str]) -> None:
    if len(set(keys)) != len(keys):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


def _key_of(resource: Resource, name: str) -> ConfigKey | None:
    return TOPIC_KEYS.get(name) if resource[0] == ResourceType.TOPIC else broker_key(name)


def _changed(resource: Resource, change: Change, before: Mapping[str, str]) -> str | None:
    if change.operation == Operation.DELETE:
        return None
    if change.operation == Operation.SET:
        return change.value
    if change.operation not in (Operation.APPEND, Operation.SUBTRACT):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {change.operation}")
    key = _key_of(resource, change.key)
    if key is None or key.type is not Type.LIST:
        operation = Operation(change.operation).name
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Can't {operation} to key {change.key} because its type is not LIST."
        )
    current = before.get(change.key)
    items = _items(key.render(key.default) if current is None else current)
    given = _items(change.value)
    if change.operation == Operation.APPEND:
        return ",".join(items + [item for item in dict.fromkeys(given) if item not in items])
    return ",".join(item for item in items if item not in given)


def _items(text: str | None) -> list[str]:
    return [item.strip() for item in (text or "").split(",") if item.strip()]


def _check(
    resource: Resource, changed: Mapping[str, str | None], after: Mapping[str, str], image: MetadataImage
) -> None:
    too_long = [key for key, value in changed.items() if value is not None and len(value) > VALUE_LENGTH_MAX]
    if too_long:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The configuration value cannot be added because it exceeds the maximum value size of {VALUE_LENGTH_MAX} "
            f"characters: {', '.join(too_long)}",
        )
    if resource[0] == ResourceType.TOPIC:
        _check_topic(after)
        return
    broker_id = int(resource[1]) if resource[1] else None
    problem = _broker_problem(changed, after, broker_id, image)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _check_topic(configs: Mapping[str, str]) -> None:
    for key, value in configs.items():
        try:
            topic_key(key).parse(value)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _broker_problem(
    changed: Mapping[str, str | None], after: Mapping[str, str], broker_id: int | None, image: MetadataImage
) -> str | None:
    keys = {name: broker_key(name) for name in changed}
    fixed = [
        name
        for name, key in keys.items()
        if key is not None and key.mode is UpdateMode.READ_ONLY and changed[name] is not None
    ]
    if fixed:
        return f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]"
    # A key that is not known, or not dynamic (any more), may always be taken away.
    unknown = [name for name, key in keys.items() if key is None and changed[name] is not None]
    if unknown:
        return f"Unknown broker config name: {', '.join(sorted(unknown))}"
    if broker_id is None:
        single = [name for name, key in keys.items() if key is not None and key.mode is UpdateMode.PER_BROKER]
        if single:
            names = ", ".join(sorted(single))
            return f"Cannot update these configs at default cluster level, broker id must be specified: [{names}]"
    try:
        for name, value in changed.items():
            key = keys[name]
            if key is not None and value is not None:
                key.parse(value)
    except ConfigError as error:
        return str(error)
    defaults = after if broker_id is None else image.broker_configs(None)
    for one in image.brokers if broker_id is None else [broker_id]:
        values = {**defaults, **(image.broker_configs(one) if broker_id is None else after)}
        problem = _limits_problem(values, _listeners(one, image)) or _per_ip_problem(changed, values)
        if problem is not None:
            return problem
    return None


def _listeners(broker_id: int, image: MetadataImage) -> Iterable[str]:
    return sorted(endpoint.listener.lower() for endpoint in image.brokers[broker_id].endpoints)


def _limits_problem(values: Mapping[str, str], listeners: Iterable[str]) -> str | None:
    """A dynamic limit of a listener must be above zero, also one that it has from the broker-wide key."""
    for base in _LISTENER_LIMITS:
        effective = [values.get(f"listener.name.{listener}.{base}", values.get(base)) for listener in listeners]
        effective += [value for name, value in values.items() if split_listener_prefix(name)[1] == base != name]
        for value in effective:
            if value is not None and int(value) <= 0:
                return f"Invalid {base} {value}"
    return None


def _per_ip_problem(changed: Mapping[str, str | None], values: Mapping[str, str]) -> str | None:
    if _OVERRIDES in changed:
        for item in _items(values.get(_OVERRIDES)):
            host, _, count = item.rpartition(":")
            if not count.isdecimal():
                return f"{_OVERRIDES}: {item!r} must be host:count; several are separated by commas"
            if not _is_host(host):
                return f"{_OVERRIDES} contains invalid addresses : {host}"
    if changed.get(_PER_IP) is not None and int(values[_PER_IP]) == 0 and not _items(values.get(_OVERRIDES)):
        return f"{_PER_IP} can be set to zero only if {_OVERRIDES} property is set."
    return None


def _is_host(host: str) -> bool:
    bare = host.removeprefix("[").removesuffix("]")
    try:
        ip_address(bare)
    except ValueError:
        return _HOST.fullmatch(host) is not None
    return True


def _records(resource: Resource, before: Mapping[str, str], after: Mapping[str, str]) -> Sequence[ConfigRecord]:
    """Only what is different; the order is that of the keys, so that equal requests make equal records."""
    kind, name = resource
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return [ConfigRecord(kind, name, key, after.get(key)) for key in keys]
