"""Client metrics subscriptions (ConfigResource CLIENT_METRICS, KIP-714): their keys, and the clients that they match.

Pure. Names, bounds and messages are Apache Kafka's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker_runtime.config.declaring.allowed import between
from broker_runtime.config.declaring.declaration import Config
from broker_runtime.config.declaring.definition import ConfigKey, Key, Type, UpdateMode
from broker_runtime.config.declaring.patterns_on_demand import compile_pattern
from broker_runtime.errors import ConfigError, ErrorCode, KafkaError
from broker_runtime.remembering import remembered

if TYPE_CHECKING:
    from broker_runtime.config.declaring.patterns import Pattern

INTERVAL_MS_MIN, INTERVAL_MS_DEFAULT, INTERVAL_MS_MAX = 100, 300_000, 3_600_000
ALL_METRICS = "*"
SUBSCRIPTIONS_MAX = 100
"""Maximum number of subscriptions.

A broker compares each client that requests subscriptions with all of them, which takes up to 40 us each.
"""
_MATCH_MAX = 32_767
"""Characters of the longest text with expressions that is cached: that of the longest value."""
_PATTERNS_MAX = 12
"""Expressions of one subscription. Compiling each takes up to 5 ms, and only the last one of each key counts."""
_CLIENT_KEYS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


class ClientMetricsConfig(Config):
    """The configuration keys of one client metrics subscription."""

    interval_ms: Key[int] = Key(
        "interval.ms",
        Type.INT,
        INTERVAL_MS_DEFAULT,
        "The interval at which clients push their metrics.",
        between(INTERVAL_MS_MIN, INTERVAL_MS_MAX),
        UpdateMode.CLUSTER_WIDE,
    )
    match: Key[tuple[str, ...]] = Key(
        "match",
        Type.LIST,
        (),
        f"The clients that the subscription is for: a list of KEY=EXPRESSION, where KEY is one of "
        f"{', '.join(_CLIENT_KEYS)}, and EXPRESSION is a regular expression (RE2). All clients, if it is empty.",
        mode=UpdateMode.CLUSTER_WIDE,
    )
    metrics: Key[tuple[str, ...]] = Key(
        "metrics",
        Type.LIST,
        (),
        "Prefixes of the names of the metrics that clients push; * is all.",
        mode=UpdateMode.CLUSTER_WIDE,
    )


CLIENT_METRICS_KEYS: Mapping[str, ConfigKey] = ClientMetricsConfig.KEYS


def check_client_metrics(own: Mapping[str, str]) -> None:
    """Check a subscription's configuration. Raises KafkaError with Apache Kafka's code."""
    for name in own:
        if name not in CLIENT_METRICS_KEYS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
    interval = ClientMetricsConfig.interval_ms
    try:
        for name, text in own.items():
            if name != interval.name:
                CLIENT_METRICS_KEYS[name].parse(text)
        _patterns(own.get(ClientMetricsConfig.match.name, ""))
        interval_ms = _without_bounds(interval).parse(own.get(interval.name, str(interval.default)))
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    assert isinstance(interval_ms, int)
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for {interval.name}, interval must be between {INTERVAL_MS_MIN} and "
            f"{INTERVAL_MS_MAX} (1 hour)",
        )


def _without_bounds(key: Key[int]) -> Key[int]:
    return Key(key.name, key.type, key.default, key.doc)


@dataclass(frozen=True, slots=True)
class ClientMetricsSubscription:
    """A client metrics subscription: a client that `patterns` match pushes `metrics` each `interval_ms`."""

    interval_ms: int
    metrics: Sequence[str]
    patterns: "Mapping[str, Pattern]"

    def matches(self, client: Mapping[str, str]) -> bool:
        """Return whether the patterns match a client. `client` has a value for each key that a pattern may use."""
        return all(pattern.matches(client[name]) for name, pattern in self.patterns.items())


def subscription(own: Mapping[str, str]) -> ClientMetricsSubscription | None:
    """Return the client metrics subscription with the configuration `own`.

    None if another version of the broker has stored it and this version does not understand it.
    """
    try:
        config = ClientMetricsConfig.from_values(
            {name: CLIENT_METRICS_KEYS[name].parse(text) for name, text in own.items()}
        )
        return ClientMetricsSubscription(config.interval_ms, config.metrics, _patterns(",".join(config.match)))
    except (ConfigError, KeyError):
        return None


@remembered(SUBSCRIPTIONS_MAX, _MATCH_MAX)
def _patterns(text: str) -> "Mapping[str, Pattern]":
    """Compile the expressions by key. Raises ConfigError."""
    found: dict[str, Pattern] = {}
    items = [item for item in map(str.strip, text.split(",")) if item]
    if len(items) > _PATTERNS_MAX:
        raise ConfigError(f"match has {len(items)} expressions; at most {_PATTERNS_MAX} are allowed")
    for item in items:
        name, separator, expression = item.partition("=")
        name, expression = name.strip(), expression.strip()
        try:
            if not separator or name not in _CLIENT_KEYS or not expression or "=" in expression:
                raise ConfigError("it is not KEY=EXPRESSION")
            found[name] = compile_pattern(expression)
        except ConfigError as error:
            raise ConfigError(f"Illegal client matching pattern: {item} ({error})") from error
    return found
