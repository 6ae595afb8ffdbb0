"""Code of observers from ConfigMaps: one ConfigMap of the operator, mounted into every broker pod. Pure.

A module's file name contains a digest of its code, so changed code is a new module: running brokers import it, and
nothing has to be reloaded. Pods are rolled once, when the BrokerCluster allows such code.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluicegate_operator.api.models.observer_plugin import ObserverPlugin

MODULE_BYTES_MAX = 48 << 10
"""Maximum bytes of a module. Sixteen of them fit into the 1 MiB of a ConfigMap."""
_DIGITS = 10
_NONE: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class ObserverModule:
    """A Python module with the code of an observer.

    `name` is the module's name on the brokers, `class_name` is module.Class there.
    """

    name: str
    class_name: str
    text: str

    @property
    def file_name(self) -> str:
        return f"{self.name}.py"

    def is_missed_in(self, problem: str) -> bool:
        """Return whether the broker could not find the module itself, rather than a module that it imports."""
        return problem == f"ModuleNotFoundError: No module named '{self.name}'"


@dataclass(frozen=True, slots=True)
class ModulesFound:
    """The module of each ObserverPlugin, or why the module is missing, by ObserverPlugin."""

    modules: Mapping[str, ObserverModule] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    keeps: bool = False
    """Whether a ConfigMap cannot be read, so that brokers keep their present modules."""
    postponed: frozenset[str] = frozenset()
    """ObserverPlugins whose ConfigMap cannot be read for now. Their status stays unchanged."""


def find_modules(
    plugins: Mapping[str, ObserverPlugin],
    config_maps: Mapping[str, Mapping[str, Any] | None],
    refused: Mapping[str, str] = _NONE,
) -> ModulesFound:
    """Return the modules with the code of ObserverPlugins.

    `plugins` are by name. `config_maps` are those that the plugins name, None for a missing one. `refused`: ConfigMaps
    that the API server refuses to show, with its message.
    """
    modules, missing = {}, {}
    for name, plugin in plugins.items():
        source = plugin.spec.config_map_name
        if source is None:
            continue
        module, _, class_name = plugin.observes.partition(".")
        found = config_maps.get(source)
        text = ((found or {}).get("data") or {}).get(f"{module}.py")
        if source in refused:
            missing[name] = f"ConfigMap {source} cannot be read: {refused[source]}; brokers keep their current code"
        elif found is None:
            missing[name] = f"ConfigMap {source} does not exist; create it or correct source.configMap"
        elif text is None:
            missing[name] = f"ConfigMap {source} has no key {module}.py, which class {plugin.observes} needs"
        elif len(text.encode()) > MODULE_BYTES_MAX:
            missing[name] = f"{module}.py of ConfigMap {source} is larger than 48 KiB; put it into the brokers' image"
        else:
            digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
            modules[name] = ObserverModule(f"{module}_{digest}", f"{module}_{digest}.{class_name}", text)
    return ModulesFound(modules, missing, keeps=bool(refused))
