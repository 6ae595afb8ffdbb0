"""The values in force on one broker: its own dynamic ones over the cluster's default ones over the static ones.

Pure (KIP-226). A stored dynamic value that this broker cannot use (a listener it does not have, a key of a newer
version) is left out and reported, never fatal: it was checked when it was stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker_runtime.config.broker import BROKER_KEYS, broker_key, split_listener_prefix
from broker_runtime.config.definition import UpdateMode, Value
from broker_runtime.config.settings import BrokerSettings
from broker_runtime.errors import ConfigError


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """`values` has every key, and the listener-prefixed ones that are set; `ignored` says what was left out and why."""

    values: Mapping[str, Value]
    ignored: tuple[str, ...] = field(default=())

    def integer(self, name: str) -> int:
        value = self.values[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} is not a number")
        return value

    def per_listener(self, base: str) -> dict[str, int]:
        """Upper-case listener name -> its own value of `base`, where one is set."""
        found = {}
        for name, value in self.values.items():
            listener, key = split_listener_prefix(name)
            if listener is not None and key == base and isinstance(value, int):
                found[listener.upper()] = value
        return found


def effective_config(
    settings: BrokerSettings, cluster_default: Mapping[str, str], own: Mapping[str, str]
) -> EffectiveConfig:
    values: dict[str, Value] = dict(settings.values)
    ignored: list[str] = []
    listeners = {endpoint.listener.lower() for endpoint in settings.listeners}
    for texts in (cluster_default, own):
        for name, text in texts.items():
            key = broker_key(name)
            listener, _ = split_listener_prefix(name)
            if key is None or key.mode is UpdateMode.READ_ONLY:
                ignored.append(f"{name}: not a dynamic key of this broker")
            elif listener is None or listener in listeners:
                try:
                    values[name] = key.parse(text)
                except ConfigError as error:
                    ignored.append(str(error))
    return EffectiveConfig(values, tuple(ignored))


def topic_defaults(effective: EffectiveConfig) -> dict[str, Value]:
    """The broker-level values that topics fall back to."""
    return {name: effective.values[name] for name in BROKER_KEYS if name in effective.values}
