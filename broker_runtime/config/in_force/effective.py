"""The effective values on one broker: its dynamic ones override the cluster's default, which overrides the file.

Pure (KIP-226). A stored dynamic value that this broker cannot use is ignored and reported, and the others are applied.
Examples are a key of a newer version, and a limit that together with the file would reject every client. The value was
checked when it was stored, by a controller that may have known less.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from broker_runtime.config.declaring.definition import Key, UpdateMode, Value
from broker_runtime.config.in_force.dynamic_listeners import (
    LISTENER_KEYS,
    Listeners,
    dynamic_listeners,
    static_listeners,
)
from broker_runtime.config.in_force.limit_rules import limit_problems, proxy_key, proxy_problem
from broker_runtime.config.in_force.settings import BrokerSettings
from broker_runtime.config.keys.broker import BrokerConfig, broker_key, split_listener_prefix
from broker_runtime.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """The configuration in force on a broker.

    - `config`: the typed value of every key.
    - `values`: the same values by the names of keys, and the values of set keys with a listener's prefix.
    - `listeners`: the listeners that the broker has to open.
    - `ignored`: a text for each ignored stored value, with the reason.
    """

    config: BrokerConfig
    values: Mapping[str, Value] = field(repr=False)
    listeners: Listeners
    ignored: tuple[str, ...] = field(default=())

    def per_listener(self, key: Key[T]) -> dict[str, T]:
        """Return the values of `key` that listeners have of their own, by upper-case name of the listener."""
        found: dict[str, Any] = {}
        for name, value in self.values.items():
            listener, base = split_listener_prefix(name)
            if listener is not None and base == key.name:
                found[listener.upper()] = value
        return found


def effective_config(
    settings: BrokerSettings, cluster_default: Mapping[str, str], own: Mapping[str, str]
) -> EffectiveConfig:
    opened, own, ignored = _listeners(settings, own)
    listeners = {name.lower() for name in opened.names}
    values: Mapping[str, Value] = settings.values
    for texts in (cluster_default, own):
        level, unused = _typed(texts, listeners)
        values, clashing = _laid_over(values, level, listeners)
        ignored += [*unused, *clashing]
    problem = proxy_problem(values, settings.inter_broker_listener.lower())
    if problem is not None:
        values = _without_proxies(values, settings.inter_broker_listener.lower())
        ignored.append(problem)
    return EffectiveConfig(BrokerConfig.from_values(values), values, opened, tuple(ignored))


def _listeners(settings: BrokerSettings, own: Mapping[str, str]) -> tuple[Listeners, Mapping[str, str], list[str]]:
    """Return the listeners, the rest of `own`, and faults.

    The listeners are the file's if the stored ones violate a rule with it.
    """
    try:
        return dynamic_listeners(settings, own), own, []
    except ConfigError as error:
        rest = {name: text for name, text in own.items() if name not in LISTENER_KEYS}
        return static_listeners(settings), rest, [f"{error}; the broker uses the listeners of the properties file"]


def _without_proxies(values: Mapping[str, Value], listener: str) -> Mapping[str, Value]:
    return {name: value for name, value in values.items() if name != proxy_key(listener)}


def _typed(texts: Mapping[str, str], listeners: Collection[str]) -> tuple[dict[str, Value], Sequence[str]]:
    """Return the values of one level that this broker uses, and the faults of the others."""
    values: dict[str, Value] = {}
    ignored = []
    for name, text in texts.items():
        key = broker_key(name)
        listener, _ = split_listener_prefix(name)
        if key is None or key.mode is UpdateMode.READ_ONLY:
            ignored.append(f"{name}: not a key that can be changed while this broker runs")
        elif key.used and (listener is None or listener in listeners):
            try:
                values[name] = key.parse(text)
            except ConfigError as error:
                ignored.append(str(error))
    return values, ignored


def _laid_over(
    below: Mapping[str, Value], level: Mapping[str, Value], listeners: Collection[str]
) -> tuple[Mapping[str, Value], Sequence[str]]:
    """Return `level` over `below`, without the values of `level` that violate a rule that `below` keeps."""
    # A broker may have been started with a limit of zero, so existing violations are accepted.
    known = limit_problems(below, listeners)
    taken = dict(level)
    clashing: list[str] = []
    while taken:
        after = {**below, **taken}
        problem = next((p for p in limit_problems(after, listeners) if p not in known), None)
        if problem is None:
            break
        culprits = [name for name in problem.keys if name in taken][: 1 if problem.one_is_enough else None]
        culprits = culprits or list(taken)
        for name in culprits:
            del taken[name]
        clashing.append(
            f"{problem.text} (together with other values that are set here); not used: {', '.join(culprits)}"
        )
    return {**below, **taken}, clashing
