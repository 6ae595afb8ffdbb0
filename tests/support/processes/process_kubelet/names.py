"""Cluster DNS for processes: a hosts file that name_shim/sitecustomize.py reads in every pod process."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SHIM = Path(__file__).with_name("name_shim")
HOSTS_VARIABLE = "PROCESS_KUBELET_HOSTS"
DENIED_VARIABLE = "PROCESS_KUBELET_DENIED_S"
"""Time that a name stays nonexistent for all processes after it was asked for too early, in seconds."""
NAMESPACE_VARIABLE = "PROCESS_KUBELET_NAMESPACE"
"""The pod's own namespace, in which names are looked up first."""
NOBODY = "127.255.255.254"
"""Refuses connections, like the address of a Service without pods."""


@dataclass(frozen=True, slots=True)
class NamedPod:
    """A pod as cluster DNS needs it."""

    namespace: str
    hostname: str
    subdomain: str
    labels: tuple[tuple[str, str], ...]
    address: str
    ready: bool


@dataclass(frozen=True, slots=True)
class NamedService:
    """A Service as cluster DNS needs it."""

    namespace: str
    name: str
    selector: tuple[tuple[str, str], ...]
    publishes_not_ready: bool
    has_address: bool = False
    """Whether the Service has its own address, as all but headless ones have: its name exists with or without pods."""


def host_lines(pods: Iterable[NamedPod], services: Iterable[NamedService]) -> list[str]:
    """Lines `address name name ...` as cluster DNS would answer: a pod's name and its services' names."""
    pods = sorted(pods, key=lambda pod: (pod.namespace, pod.hostname))
    lines = []
    for pod in pods:
        if pod.subdomain:
            lines.append(f"{pod.address} {_forms(f'{pod.hostname}.{pod.subdomain}', pod.namespace)}")
    for service in services:
        addresses = [pod.address for pod in pods if _serves(pod, service)]
        if service.has_address and not addresses:
            addresses = [NOBODY]
        lines += [f"{address} {_forms(service.name, service.namespace)}" for address in addresses]
    return lines


def _serves(pod: NamedPod, service: NamedService) -> bool:
    chosen = bool(service.selector) and set(service.selector) <= set(pod.labels)
    return chosen and pod.namespace == service.namespace and (pod.ready or service.publishes_not_ready)


def _forms(name: str, namespace: str) -> str:
    return f"{name}.{namespace}.svc.cluster.local {name}.{namespace}.svc {name}.{namespace}"


class HostsFile:
    """The hosts file that pod processes read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._written: list[str] | None = None

    def write(self, lines: list[str]) -> None:
        """Replace the file by renaming: a reader sees the old names or the new ones, never half of them."""
        if lines == self._written:
            return
        fresh = self.path.with_suffix(".fresh")
        fresh.write_text("".join(f"{line}\n" for line in lines))
        os.replace(fresh, self.path)
        self._written = lines
