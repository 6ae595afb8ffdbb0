"""Argo CD's health checks as Argo CD runs them: Lua 5.1 over `obj`, by the kind named in a key of its ConfigMap."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from lupa import lua51

from sluicegate_operator.api.schema.metadata import GROUP

_PREFIX = f"resource.customizations.health.{GROUP}_"

Health = tuple[str, str]
"""Status and message."""


def health_checks(config_map: Path) -> dict[str, Callable[[Mapping[str, Any]], Health]]:
    """Health checks by kind. `config_map` is the file that is merged into argocd-cm."""
    data: Mapping[str, str] = yaml.safe_load(config_map.read_text(encoding="utf-8"))["data"]
    return {key.removeprefix(_PREFIX): _check(script) for key, script in data.items() if key.startswith(_PREFIX)}


def _check(script: str) -> Callable[[Mapping[str, Any]], Health]:
    # Argo CD gives scripts neither files nor processes, and nothing of Python.
    lua = lua51.LuaRuntime(register_eval=False, register_builtins=False)
    lua.execute("io, os, require, dofile, loadfile, package = nil, nil, nil, nil, nil, nil")
    health = lua.eval(f"function(obj) {script} end")

    def check(document: Mapping[str, Any]) -> Health:
        said = health(lua.table_from(document, recursive=True))
        return str(said["status"]), str(said["message"])

    return check
