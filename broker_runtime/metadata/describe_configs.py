"""Describes configurations (KIP-226, KIP-569): every key with its value, its source and the values that it overrides.

Pure. A node describes itself. Its own dynamic configuration overrides the cluster's default one, which overrides its
properties file, which overrides the defaults.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from broker_runtime.config import (
    BROKER_KEYS,
    BROKER_SYNONYMS,
    TOPIC_KEYS,
    BrokerConfig,
    BrokerSettings,
    ConfigKey,
    UpdateMode,
    Value,
    broker_key,
    split_listener_prefix,
)
from broker_runtime.config.declaring.unused import unused_keys
from broker_runtime.config.keys.client_metrics import CLIENT_METRICS_KEYS
from broker_runtime.config.keys.group_resource import GROUP_KEYS
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.configs import ResourceType
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import check_topic_name
from broker_runtime.slicing.steps import Steps

_SHOWN_AS_READ_ONLY = (BrokerConfig.advertised_listeners.name,)
"""Kafka reports it as read-only, and clients expect that. A broker still accepts a change of it (KIP-226)."""


class ConfigSource(IntEnum):
    """The sources of a configuration value, with their numbers in the protocol."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    """One possible source of a value, with the key's name in that source."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class Described:
    """A key of a configuration as DescribeConfigs shows it.

    `synonyms` are all sources of the value, the effective one first.
    """

    name: str
    key: ConfigKey
    value: str | None
    source: ConfigSource
    read_only: bool
    synonyms: Sequence[Synonym]


def describe_resource(
    resource: tuple[int, str], wanted: Collection[str] | None, image: MetadataImage, settings: BrokerSettings
) -> Steps[Sequence[Described]]:
    """Describe the keys of one resource; `wanted` None or empty requests all keys.

    Raises KafkaError for a resource that does not exist or cannot be described.
    """
    kind, name = resource
    if kind == ResourceType.TOPIC:
        check_topic_name(name)
        if name not in image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        found = describe_topic(image.configs.of_topic(name), image, settings)
    elif kind == ResourceType.BROKER and not name:
        found = _cluster_default(image)
    elif kind == ResourceType.BROKER:
        _check_is_self(name, settings)
        found = _broker(image, settings)
    elif kind == ResourceType.GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        found = _group(image.configs.of_group(name), image, settings)
    elif kind == ResourceType.CLIENT_METRICS:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        found = _client_metrics(image.configs.of(kind, name))
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    kept = []
    for entry in found:
        if not wanted or entry.name in wanted:
            kept.append(entry)
        yield
    return kept


def _check_is_self(name: str, settings: BrokerSettings) -> None:
    try:
        broker_id = int(name)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if broker_id != settings.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {settings.node_id} or empty string, but received {name}",
        )


def describe_topic(configs: Mapping[str, str], image: MetadataImage, settings: BrokerSettings) -> Iterator[Described]:
    for name, key in TOPIC_KEYS.items():
        own = [Synonym(name, configs[name], ConfigSource.DYNAMIC_TOPIC)] if name in configs else []
        yield _described(name, key, [*own, *_broker_synonyms(BROKER_SYNONYMS[name], image, settings)], False)
    unused = unused_keys("topic")
    for name in sorted(configs.keys() & unused.keys()):
        own = [Synonym(name, configs[name], ConfigSource.DYNAMIC_TOPIC)]
        yield _described(name, unused[name], own, False)


def _group(configs: Mapping[str, str], image: MetadataImage, settings: BrokerSettings) -> Iterator[Described]:
    for name, key in GROUP_KEYS.items():
        own = [Synonym(name, configs[name], ConfigSource.GROUP)] if name in configs else []
        defaults = _broker_synonyms(key.synonym or name, image, settings)
        yield _described(name, key, [*own, *defaults], False)
    unused = unused_keys("group")
    for name in sorted(configs.keys() & unused.keys()):
        yield _described(name, unused[name], [Synonym(name, configs[name], ConfigSource.GROUP)], False)


def _client_metrics(configs: Mapping[str, str]) -> Iterator[Described]:
    for name, key in CLIENT_METRICS_KEYS.items():
        if name in configs:
            yield _described(name, key, [Synonym(name, configs[name], ConfigSource.CLIENT_METRICS)], False)
        else:
            yield Described(name, key, key.render(key.default), ConfigSource.DEFAULT, False, ())


def _broker(image: MetadataImage, settings: BrokerSettings) -> Iterator[Described]:
    """All keys of this broker, and the unused and listener-prefixed ones that are set."""
    more = {
        name
        for texts in (image.configs.of_broker(settings.node_id), image.configs.of_broker(None), settings.given)
        for name in texts
        if name not in BROKER_KEYS
    }
    for name in [*BROKER_KEYS, *sorted(more)]:
        key = broker_key(name)
        if key is not None:
            read_only = key.mode is UpdateMode.READ_ONLY or name in _SHOWN_AS_READ_ONLY
            yield _described(name, key, _broker_synonyms(name, image, settings), read_only)


def _cluster_default(image: MetadataImage) -> Iterator[Described]:
    for name, value in sorted(image.configs.of_broker(None).items()):
        key = broker_key(name)
        if key is not None:
            yield _described(name, key, [Synonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)], False)


def _broker_synonyms(name: str, image: MetadataImage, settings: BrokerSettings) -> list[Synonym]:
    key = broker_key(name)
    if key is None:
        return []
    _, base = split_listener_prefix(name)
    found = []
    for known in dict.fromkeys((name, base)):
        for texts, source in (
            (image.configs.of_broker(settings.node_id), ConfigSource.DYNAMIC_BROKER),
            (image.configs.of_broker(None), ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ):
            if known in texts:
                found.append(Synonym(known, texts[known], source))
        if known in settings.given:
            found.append(Synonym(known, settings.given[known], ConfigSource.STATIC_BROKER))
    # Some static values derive from another key (log.retention.hours), so the effective value counts, not the default.
    default = _default(base, key, settings)
    if default is not None:
        found.append(Synonym(base, key.render(default), ConfigSource.DEFAULT))
    return found


def _default(base: str, key: ConfigKey, settings: BrokerSettings) -> Value:
    return key.default if base in settings.given else settings.values.get(base, key.default)


def _described(name: str, key: ConfigKey, synonyms: Sequence[Synonym], read_only: bool) -> Described:
    shown = [Synonym(s.name, None if key.sensitive else _shown(key, s.value), s.source) for s in synonyms]
    first = shown[0] if shown else Synonym(name, None, ConfigSource.DEFAULT)
    return Described(name, key, first.value, first.source, read_only, shown)


def _shown(key: ConfigKey, text: str | None) -> str | None:
    """Return the parsed value, not the original text: ` TRUE` becomes `true`."""
    return None if text is None else key.render(key.parse(text))
