"""Imported by Python at start-up in pod processes: names of pods and services resolve from the kubelet's hosts file.

There is no other DNS: a name that is not listed does not exist. As with cluster DNS that answer is cached for a while
and for all processes: the name stays denied even if it is listed meanwhile.
"""

import ipaddress
import os
import socket
import time
from typing import Any

_system_getaddrinfo = socket.getaddrinfo


def _addresses(name: str) -> list[str]:
    with open(os.environ["PROCESS_KUBELET_HOSTS"], encoding="utf-8") as hosts:
        rows = [line.split() for line in hosts]
    return list(dict.fromkeys(row[0] for row in rows if name in row[1:]))


def _in_full(name: str) -> str:
    """The name with the first search domain of a pod, or unchanged."""
    here = f"{name}.{os.environ['PROCESS_KUBELET_NAMESPACE']}"
    return here if _addresses(here) or "." not in name else name.rstrip(".")


def _is_denied(name: str) -> bool:
    try:
        denied_at = os.stat(_denial(name)).st_mtime
    except FileNotFoundError:
        return False
    return time.time() < denied_at + float(os.environ.get("PROCESS_KUBELET_DENIED_S", "0"))


def _deny(name: str) -> None:
    with open(_denial(name), "w", encoding="utf-8"):
        pass


def _denial(name: str) -> str:
    return os.path.join(os.path.dirname(os.environ["PROCESS_KUBELET_HOSTS"]), f"denied-{name.lower()}")


def _is_outside(name: str) -> bool:
    """Whether the name needs no DNS: an address, or this host's own name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in ("", "localhost", socket.gethostname())
    return True


def _getaddrinfo(host: Any, port: Any, *arguments: Any, **options: Any) -> list[Any]:
    name = host.decode("ascii") if isinstance(host, bytes) else host
    if not isinstance(name, str) or _is_outside(name):
        return _system_getaddrinfo(host, port, *arguments, **options)
    name = _in_full(name)
    if not _is_denied(name):
        if addresses := _addresses(name):
            return [
                found for address in addresses for found in _system_getaddrinfo(address, port, *arguments, **options)
            ]
        _deny(name)
    raise socket.gaierror(socket.EAI_NONAME, f"{name} is not known in this cluster")


if "PROCESS_KUBELET_HOSTS" in os.environ:
    socket.getaddrinfo = _getaddrinfo
