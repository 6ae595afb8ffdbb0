"""Alter configurations (KIP-226, KIP-339): the changes that AlterConfigs and IncrementalAlterConfigs allow. Pure.

Invalid broker values are answered with INVALID_REQUEST and invalid topic values with INVALID_CONFIG, as in Kafka.
Unlike in Kafka an unknown broker key is rejected: a typing mistake should not look like a limit that is set.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from broker_runtime.config import TOPIC_KEYS, ConfigKey, TopicConfig, Type, broker_key
from broker_runtime.config.declaring.unused import unused_keys
from broker_runtime.config.keys.client_metrics import SUBSCRIPTIONS_MAX, check_client_metrics
from broker_runtime.config.keys.group_resource import group_resource_problem
from broker_runtime.config.keys.topic import topic_key
from broker_runtime.controller.broker_configs import broker_change_problem
from broker_runtime.errors import ConfigError, ErrorCode, KafkaError
from broker_runtime.metadata.areas.configs import ConfigRecord, ResourceType
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import check_topic_name

VALUE_LENGTH_MAX = 32_767
"""Limit of a value in bytes, as in Kafka's controller: older versions of responses cannot have a longer text."""
_TAKEN_APART_LENGTH_MAX = 2 * VALUE_LENGTH_MAX
"""Maximum of characters of lists to append or subtract. Splitting this many blocks the event loop for 3 ms."""
CONFIGS_MAX = 1_000
"""Limit of the changes for one resource in one request. No resource has as many keys."""


class Operation(IntEnum):
    """The operation codes of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Change:
    """One operation on one key of a configuration. `value` is None if the key is deleted."""

    key: str
    operation: int
    value: str | None


Resource = tuple[int, str]
"""The type and the name of a resource."""
_NAMED: Mapping[int, str] = {
    ResourceType.GROUP: "Default group resources are not allowed.",
    ResourceType.CLIENT_METRICS: "Subscription name can't be empty",
}
"""Kinds of resources that exist once they are configured, and the error for an empty name."""


class ResourceCapacity:
    """Counts the groups and client metrics subscriptions that one request configures for the first time."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._added: Counter[int] = Counter()

    def take(self, resource: Resource, records: Sequence[ConfigRecord]) -> None:
        """Count a resource with configuration, to which `records` belong.

        Raises KafkaError (POLICY_VIOLATION) for one configured resource too many.
        """
        kind, name = resource
        configs, most, advice = self._image.configs, self._image.limits.resources_max, ""
        if kind == ResourceType.CLIENT_METRICS and most > SUBSCRIPTIONS_MAX:
            most, advice = SUBSCRIPTIONS_MAX, "; delete one that is not needed"
        if kind not in _NAMED or configs.of(kind, name) or all(record.value is None for record in records):
            return
        if len(configs.names(kind)) + self._added[kind] >= most:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{name} has no configuration yet, and at most {most} resources of type {kind} may have "
                f"one{advice or ' (sluicegate.config.resources.max)'}",
            )
        self._added[kind] += 1


def check_count(count: int) -> None:
    """Check the number of configurations of one resource in a request. Raises KafkaError."""
    if count > CONFIGS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{count} configurations for one resource; at most {CONFIGS_MAX} are allowed."
        )


def alter_incrementally(resource: Resource, changes: Sequence[Change], image: MetadataImage) -> Sequence[ConfigRecord]:
    before = _existing(resource, image)
    _check_keys([change.key for change in changes])
    nulls = [c.key for c in changes if c.value is None and c.operation != Operation.DELETE]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
    _check_lists(changes)
    after = dict(before)
    for change in changes:
        value = _changed(resource, change, before)
        if value is None:
            after.pop(change.key, None)
        else:
            after[change.key] = value
    _check(resource, before, after, image)
    return _records(resource, before, after)


def replace_all(
    resource: Resource, configs: Sequence[tuple[str, str | None]], image: MetadataImage
) -> Sequence[ConfigRecord]:
    """Return the records of AlterConfigs for one resource: keys that it does not name revert to their defaults."""
    before = _existing(resource, image)
    _check_keys([key for key, _ in configs])
    nulls = [key for key, value in configs if value is None]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
    after = {key: value for key, value in configs if value is not None}
    _check(resource, before, after, image)
    return _records(resource, before, after)


def check_topic_configs(configs: Sequence[tuple[str, str | None]]) -> Mapping[str, str]:
    """Check the configurations of a topic to create, and return them."""
    found: dict[str, str] = {}
    for key, value in configs:
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {key}")
        found[key] = value
    _check_topic(found)
    return found


def _existing(resource: Resource, image: MetadataImage) -> Mapping[str, str]:
    """Return the resource's dynamic configuration. Raises KafkaError if the resource does not exist."""
    kind, name = resource
    if kind == ResourceType.TOPIC:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(name)
        if name not in image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return image.configs.of_topic(name)
    if kind == ResourceType.BROKER:
        return image.configs.of_broker(_broker_id(name, image))
    if kind in _NAMED:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, _NAMED[kind])
        return image.configs.of(kind, name)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _broker_id(name: str, image: MetadataImage) -> int | None:
    if not name:
        return None
    try:
        broker_id = int(name)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}") from None
    if str(broker_id) != name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be in plain decimal form, but it is: {name}")
    if broker_id not in image.brokers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {broker_id} found.")
    return broker_id


def _check_keys(keys: Sequence[str]) -> None:
    if len(set(keys)) != len(keys):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


def _key_of(resource: Resource, name: str) -> ConfigKey | None:
    if resource[0] == ResourceType.BROKER:
        return broker_key(name)
    if resource[0] in _NAMED:
        # As in Kafka, the lists of client metrics are set as a whole.
        return None
    return TOPIC_KEYS.get(name) or unused_keys("topic").get(name)


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
        known = set(items)
        return ",".join(items + [item for item in dict.fromkeys(given) if item not in known])
    gone = set(given)
    return ",".join(item for item in items if item not in gone)


def _items(text: str | None) -> list[str]:
    return [item.strip() for item in (text or "").split(",") if item.strip()]


def _check(resource: Resource, before: Mapping[str, str], after: Mapping[str, str], image: MetadataImage) -> None:
    _check_lengths({key: value for key, value in after.items() if value != before.get(key)})
    if resource[0] == ResourceType.TOPIC:
        _check_topic(after)
        return
    if resource[0] in _NAMED:
        _check_named(resource, after, image)
        return
    problem = broker_change_problem(before, after, int(resource[1]) if resource[1] else None, image)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _check_lists(changes: Sequence[Change]) -> None:
    """Limit the items to append or subtract. Raises KafkaError. Kafka limits only the resulting value (`_check`)."""
    lists = [change for change in changes if change.operation in (Operation.APPEND, Operation.SUBTRACT)]
    length = sum(len(change.value or "") for change in lists)
    if length > _TAKEN_APART_LENGTH_MAX:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The items to append or subtract have {length} characters, and one resource may have at most "
            f"{_TAKEN_APART_LENGTH_MAX} in one request. Send them in several requests.",
        )


def _check_lengths(values: Mapping[str, str]) -> None:
    """Check the lengths of the resulting values. Raises KafkaError (INVALID_CONFIG)."""
    too_long = [key for key, value in values.items() if len(value.encode()) > VALUE_LENGTH_MAX]
    if too_long:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The configuration value cannot be added because it exceeds the maximum value size of {VALUE_LENGTH_MAX} "
            f"bytes: {', '.join(too_long)}",
        )


def _check_named(resource: Resource, after: Mapping[str, str], image: MetadataImage) -> None:
    if resource[0] == ResourceType.GROUP:
        problem = group_resource_problem(after, image.limits.groups)
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, problem)
    else:
        check_client_metrics(after)


def _check_topic(configs: Mapping[str, str]) -> None:
    for key, value in configs.items():
        try:
            topic_key(key).parse(value)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    problem = TopicConfig.of(configs).problem
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, problem)


def _records(resource: Resource, before: Mapping[str, str], after: Mapping[str, str]) -> Sequence[ConfigRecord]:
    """Return records for the differences, sorted by key, so that equal requests produce equal records."""
    kind, name = resource
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return [ConfigRecord(kind, name, key, after.get(key)) for key in keys]
