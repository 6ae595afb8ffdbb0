"""Imported by Python at start-up in pod processes: names of pods and services resolve from the kubelet's hosts file.

Everything else goes to the system's resolver. A name that ends in the cluster's domain and is not listed does not
exist, as with cluster DNS, and is not asked for outside.
"""

import os
import socket
from typing import Any

_system_getaddrinfo = socket.getaddrinfo


def _addresses(name: str) -> list[str]:
    with open(os.environ["PROCESS_KUBELET_HOSTS"], encoding="utf-8") as hosts:
        rows = [line.split() for line in hosts]
    return list(dict.fromkeys(row[0] for row in rows if name in row[1:]))


def _getaddrinfo(host: Any, port: Any, *arguments: Any, **options: Any) -> list[Any]:
    name = host.decode("ascii") if isinstance(host, bytes) else host
    if not isinstance(name, str):
        return _system_getaddrinfo(host, port, *arguments, **options)
    addresses = _addresses(name.rstrip("."))
    if not addresses and name.rstrip(".").endswith((".svc", ".svc.cluster.local")):
        raise socket.gaierror(socket.EAI_NONAME, f"{name} is not known in this cluster")
    if not addresses:
        return _system_getaddrinfo(host, port, *arguments, **options)
    return [found for address in addresses for found in _system_getaddrinfo(address, port, *arguments, **options)]


if "PROCESS_KUBELET_HOSTS" in os.environ:
    socket.getaddrinfo = _getaddrinfo
