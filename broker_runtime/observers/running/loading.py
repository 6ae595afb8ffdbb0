"""Reads the configured observers from the configuration, and creates an observer."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker_runtime.config import BrokerConfig, Value
from broker_runtime.config.keys.observers import OBSERVER_PREFIX, is_class_name, observer_key, observer_name
from broker_runtime.errors import ConfigError
from broker_runtime.observers.base import (
    AttachedObserver,
    CallObserver,
    ConfigurableObserver,
    ConnectionObserver,
    Observer,
)
from broker_runtime.observers.filters import PREFIX as FILTER_PREFIX
from broker_runtime.observers.filters import Filter
from broker_runtime.observers.surroundings import BrokerFacts

BUILT_IN: Mapping[str, str] = {
    "audit-log": "broker_runtime.observers.audit_log.observer.AuditLogObserver",
    "json-log": "broker_runtime.observers.json_log.JsonLog",
    "prometheus": "broker_runtime.observers.prometheus.PrometheusObserver",
}
"""Classes of the built-in observers, imported on first use."""
_CLASS, _BUDGET = "class", "budget.us"


class ObserverLoadError(Exception):
    """Error of an observer that cannot be loaded. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class ObserverSpec:
    """The settings of one observer. `config` is passed to it; `class_name` is package.module.Class."""

    name: str
    class_name: str
    config: Mapping[str, str]
    wanted: Filter
    budget_s: float


def wanted_observers(
    config: BrokerConfig, values: Mapping[str, Value]
) -> tuple[Mapping[str, ObserverSpec], Mapping[str, str]]:
    """Return the observers by name, and the problems of invalid ones.

    `values` are all values in force, by key.
    """
    found: dict[str, ObserverSpec] = {}
    problems: dict[str, str] = {}
    for item in config.observer_class_names:
        name = observer_name(item)
        try:
            found[name] = _spec(item, name, config, _own(name, values))
        except ConfigError as error:
            problems[name] = str(error)
    return found, problems


def _own(name: str, values: Mapping[str, Value]) -> dict[str, str]:
    """Return the settings under the observer's name, without the prefix."""
    prefix = f"{OBSERVER_PREFIX}{name}."
    own = {}
    for key, value in values.items():
        known = observer_key(key) if key.startswith(prefix) else None
        text = None if known is None else known.render(value)
        if text is not None:
            own[key.removeprefix(prefix)] = text
    return own


def _spec(item: str, name: str, broker: BrokerConfig, own: dict[str, str]) -> ObserverSpec:
    known = own.pop(_CLASS, item)
    class_name = BUILT_IN.get(known, known)
    if not is_class_name(class_name):
        raise ConfigError(
            f"{OBSERVER_PREFIX}{name}.{_CLASS} must name the class of {name}: package.module.Class, or one of "
            f"{', '.join(sorted(BUILT_IN))}, which need no class under their own name"
        )
    budget_us = int(own.pop(_BUDGET, broker.sluicegate_observer_budget_us))
    wanted = Filter.of(own)
    config = {key: text for key, text in own.items() if not key.startswith(FILTER_PREFIX)}
    return ObserverSpec(name, class_name, config, wanted, budget_us / 1e6)


def load(spec: ObserverSpec, surroundings: BrokerFacts) -> ConfigurableObserver:
    """Import the class, create and configure the observer.

    Raises ObserverLoadError, and errors of the observer.
    """
    instance = _class(spec.class_name)()
    if not isinstance(instance, ConfigurableObserver) or not isinstance(
        instance, Observer | ConnectionObserver | CallObserver
    ):
        raise ObserverLoadError(
            f"{spec.class_name} is not an observer: it needs configure and close, and either record_request with "
            "record_response or record_connection"
        )
    if isinstance(instance, CallObserver):
        if spec.class_name not in BUILT_IN.values():
            raise ObserverLoadError(
                f"{spec.class_name} has record_call, which has no time limit: only built-in observers may have it"
            )
        if spec.wanted != Filter():
            raise ObserverLoadError("this observer records all requests and supports no filter; it has its own keys")
    if isinstance(instance, AttachedObserver):
        instance.attach(surroundings)
    instance.configure(spec.config)
    return instance


def _class(name: str) -> Callable[[], Any]:
    module, _, attribute = name.rpartition(".")
    importlib.invalidate_caches()
    found = getattr(importlib.import_module(module), attribute, None)
    if not callable(found):
        raise ObserverLoadError(f"{module} has no class {attribute}")
    made: Callable[[], Any] = found
    return made
