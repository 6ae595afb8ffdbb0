"""Pure: the meaning of a container's manifest for a process that is not chrooted.

`$(VAR)` expansion and fieldRef are as Kubernetes defines them; mount paths become host folders wherever they start a
path.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
_FIELD_KEY = re.compile(r"^metadata\.(labels|annotations)\['([^']+)'\]$")
PYTHON_NAMES = ("python", "python3", "/usr/bin/python3", "/usr/local/bin/python")


@dataclass(frozen=True, slots=True)
class Mounts:
    """Mount path -> folder (or file, for a subPath) of the host."""

    folders: Mapping[str, str]

    def also(self, path: str, file: Path) -> "Mounts":
        return Mounts({**self.folders, path: str(file)})

    def rewrite(self, text: str) -> str:
        """Replace a mount path wherever it begins a path, longest mount path first; `/data` is not in `/database`."""
        if not self.folders:
            return text
        longest_first = sorted(self.folders, key=len, reverse=True)
        pattern = r"(?<![\w.\-/])(" + "|".join(re.escape(path.rstrip("/")) for path in longest_first) + r")(?![\w.\-])"
        known = {path.rstrip("/"): folder for path, folder in self.folders.items()}
        return re.sub(pattern, lambda found: known[found.group(1)], text)


def expand(text: str, env: Mapping[str, str]) -> str:
    """Expand variables: `$(NAME)` of a known variable is its value, of an unknown one itself; `$$` is one dollar."""

    def replace(found: re.Match[str]) -> str:
        if found.group(0) == "$$":
            return "$"
        return env.get(found.group(1), found.group(0))

    return _REFERENCE.sub(replace, text)


def field_value(pod: Json, pod_ip: str, path: str) -> str:
    metadata = pod["metadata"]
    keyed = _FIELD_KEY.match(path)
    if keyed:
        return str(metadata.get(keyed.group(1), {}).get(keyed.group(2), ""))
    values = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", "default"),
        "status.podIP": pod_ip,
        "status.hostIP": "127.0.0.1",
    }
    if path not in values:
        raise ValueError(f"fieldRef {path} is not one that Kubernetes offers to env")
    return str(values[path])


def environment(pod: Json, container: Json, pod_ip: str, keys: Mapping[tuple[str, str, str], str]) -> dict[str, str]:
    """A container's environment; `keys` has the values of ConfigMaps and Secrets: (kind, name, key) -> value."""
    env: dict[str, str] = {}
    for source in container.get("envFrom", []):
        reference = source.get("configMapRef") or source.get("secretRef") or {}
        kind = "ConfigMap" if "configMapRef" in source else "Secret"
        found = {key: value for (k, name, key), value in keys.items() if (k, name) == (kind, reference.get("name"))}
        env |= {source.get("prefix", "") + key: value for key, value in found.items()}
    for entry in container.get("env", []):
        origin = entry.get("valueFrom", {})
        if "fieldRef" in origin:
            env[entry["name"]] = field_value(pod, pod_ip, origin["fieldRef"]["fieldPath"])
        elif "configMapKeyRef" in origin or "secretKeyRef" in origin:
            kind = "ConfigMap" if "configMapKeyRef" in origin else "Secret"
            reference = origin.get("configMapKeyRef") or origin["secretKeyRef"]
            env[entry["name"]] = keys[kind, reference["name"], reference["key"]]
        elif "resourceFieldRef" in origin:
            env[entry["name"]] = "0"
        else:
            env[entry["name"]] = expand(entry.get("value", ""), env)
    return env


def command_line(container: Json, env: Mapping[str, str], mounts: Mounts) -> list[str]:
    """The command on the host. A manifest must have a command: the image's own entry point is unknown here."""
    words = [*container.get("command", []), *container.get("args", [])]
    if not container.get("command"):
        raise ValueError(
            f"container {container['name']} has no command; a process kubelet has no image to take it from"
        )
    return host_command([expand(word, env) for word in words], mounts)


def host_command(words: list[str], mounts: Mounts) -> list[str]:
    python = [sys.executable] if words[0] in PYTHON_NAMES else [mounts.rewrite(words[0])]
    return python + [mounts.rewrite(word) for word in words[1:]]
