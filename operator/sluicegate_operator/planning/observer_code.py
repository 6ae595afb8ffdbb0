"""Code of observers from ConfigMaps: one ConfigMap of the operator's own, which every broker pod has mounted. Pure.

A module's file is named by what is in it, so that a changed one is another module: the brokers import it while they
run, and nothing has to be reloaded. Pods are rolled once, when the BrokerCluster allows such code.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluicegate_operator.api.observer_plugin import ObserverPlugin

MODULE_BYTES_MAX = 48 << 10
"""Sixteen of them are less than the 1 MiB of a ConfigMap."""
_DIGITS = 10
_NONE: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class ObserverModule:
    """`name` is that of the module on the brokers, `class_name` module.Class there."""

    name: str
    class_name: str
    text: str

    @property
    def file_name(self) -> str:
        return f"{self.name}.py"

    def is_missed_in(self, problem: str) -> bool:
        """Whether the broker could not find it, rather than something that it imports."""
        return problem == f"ModuleNotFoundError: No module named '{self.name}'"


@dataclass(frozen=True, slots=True)
class ModulesFound:
    """By ObserverPlugin: the module that it names, or why there is none."""

    modules: Mapping[str, ObserverModule] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    hold: bool = False
    """Whether a ConfigMap cannot be read: brokers keep the modules that they have."""


def find_modules(
    plugins: Mapping[str, ObserverPlugin],
    config_maps: Mapping[str, Mapping[str, Any] | None],
    refused: Mapping[str, str] = _NONE,
) -> ModulesFound:
    """`plugins` by name; `config_maps`: those that they name, None for one that is not there. `refused`: those that the
    API server lets nobody read, with its words."""
    modules, missing = {}, {}
    for name, plugin in plugins.items():
        source = plugin.spec.config_map_name
        if source is None:
            continue
        module, _, class_name = plugin.observes.partition(".")
        found = config_maps.get(source)
        text = ((found or {}).get("data") or {}).get(f"{module}.py")
        if source in refused:
            missing[name] = (
                f"ConfigMap {source} cannot be read: {refused[source]}; brokers keep the code that they have"
            )
        elif found is None:
            missing[name] = f"there is no ConfigMap {source}; create it or correct source.configMap"
        elif text is None:
            missing[name] = f"ConfigMap {source} has no key {module}.py, which class {plugin.observes} asks for"
        elif len(text.encode()) > MODULE_BYTES_MAX:
            missing[name] = f"{module}.py of ConfigMap {source} is larger than 48 KiB; put it into the brokers' image"
        else:
            digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
            modules[name] = ObserverModule(f"{module}_{digest}", f"{module}_{digest}.{class_name}", text)
    return ModulesFound(modules, missing, hold=bool(refused))
