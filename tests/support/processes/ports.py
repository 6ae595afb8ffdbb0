"""Ports of loopback for processes that take a port only as an argument."""

import os
import secrets
import socket

_WORKERS = 4
_PORTS = range(12_000 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % _WORKERS, 32_000, _WORKERS)
"""Ports below those that systems give to outgoing connections, which would take a port before its process binds it.

Workers of pytest that run at the same time have different ports: a broker that restarts needs its port again.
"""
_given: set[int] = set()


def free_port() -> int:
    """Return a port that no process listens on, and that was not given lately."""
    if 2 * len(_given) > len(_PORTS):
        _given.clear()
    while True:
        # Tests that run at the same time may have the same seed; their ports must differ.
        port = secrets.choice(_PORTS)
        if port not in _given and _is_free(port):
            _given.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
