"""Clients that only shake hands: connect by TLS, send ApiVersions, and close; or stay, idle."""

import json
import selectors
import socket
import ssl
import struct
import sys
import time
from contextlib import suppress
from itertools import cycle

from benchmarks.wire import API_VERSIONS

_SOURCES = 8
_PATIENCE_S = 60.0
_NO_PORT_YET = 24
"""IP_BIND_ADDRESS_NO_PORT"""


class _Shaking:
    """One connection of the closed loop; `step` continues it, and returns whether it is over."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self.opened_s = time.perf_counter()
        self.socket: socket.socket = plain
        self._context = context
        self._host = host
        self.answered = self.resumed = self._shaken = False

    def begin(self, session: ssl.SSLSession | None) -> None:
        """Begin the handshake of an established connection."""
        self.socket = self._context.wrap_socket(
            self.socket, do_handshake_on_connect=False, server_hostname=self._host, session=session
        )

    def step(self) -> bool:
        tls = self.socket
        assert isinstance(tls, ssl.SSLSocket)
        try:
            if not self._shaken:
                tls.do_handshake()
                self._shaken, self.resumed = True, bool(tls.session_reused)
                tls.send(API_VERSIONS)
            self.answered = bool(tls.recv(65_536))
        except ssl.SSLWantReadError:
            return False
        except OSError:
            self.answered = False
        return True

    @property
    def session(self) -> ssl.SSLSession | None:
        return self.socket.session if isinstance(self.socket, ssl.SSLSocket) else None


class _Loop:
    """Keeps `workers` connections in progress."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext, *, resumes: bool) -> None:
        self._address = address
        self._context = context
        self._resumes = resumes
        self._session: ssl.SSLSession | None = None
        self._selector = selectors.DefaultSelector()
        self._sources = cycle([f"127.0.1.{number + 1}" for number in range(_SOURCES)])
        self.times: list[float] = []
        self.failed = self.resumed = 0

    def open_one(self) -> None:
        plain = socket.socket()
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.IPPROTO_IP, _NO_PORT_YET, 1)
        plain.bind((next(self._sources), 0))
        plain.connect_ex(self._address)
        self._selector.register(plain, selectors.EVENT_WRITE, _Shaking(plain, self._context, self._address[0]))

    def iteration(self) -> None:
        for key, mask in self._selector.select(0.1):
            one: _Shaking = key.data
            if mask & selectors.EVENT_WRITE:
                self._selector.unregister(one.socket)
                try:
                    one.begin(self._session if self._resumes else None)
                except OSError:
                    self._over(one)
                    continue
                self._selector.register(one.socket, selectors.EVENT_READ, one)
            if one.step():
                self._selector.unregister(one.socket)
                self._over(one)

    def _over(self, one: _Shaking) -> None:
        self.times.append(time.perf_counter() - one.opened_s)
        self.failed += not one.answered
        self.resumed += one.resumed
        if one.answered and self._resumes:
            self._session = one.session
        with suppress(OSError):
            one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.socket.close()
        self.open_one()


def connect_by_tls(
    host: str,
    port: int,
    *,
    trusted: str,
    seconds: float,
    version: str = "TLSv1_3",
    resumes: bool = False,
    workers: int = 64,
) -> dict[str, float]:
    """Connect by TLS, send ApiVersions, and close, from eight loopback addresses.

    Closed loop with `workers` connections at a time. Each ends by a reset, and its last session serves the next one if
    the client resumes.
    """
    context = ssl.create_default_context(cafile=trusted)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    loop = _Loop((host, port), context, resumes=resumes)
    began = time.perf_counter()
    for _ in range(workers):
        loop.open_one()
    while time.perf_counter() < began + seconds:
        loop.iteration()
    took, count = time.perf_counter() - began, len(loop.times) - loop.failed
    return {
        "per_s": count / took,
        "failed": loop.failed,
        "resumed": loop.resumed / count if count else 0.0,
        "worst_ms": max(loop.times) * 1000 if loop.times else float("nan"),
    }


def hold_idle_by_tls(host: str, port: int, *, trusted: str, connections: int) -> dict[str, float]:
    """Open connections that send ApiVersions once, report that on stdout, and keep them until stdin ends."""
    context = ssl.create_default_context(cafile=trusted)
    opened = []
    for number in range(connections):
        source = (f"127.0.2.{number % 200 + 1}", 0)
        plain = socket.create_connection((host, port), timeout=_PATIENCE_S, source_address=source)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one = context.wrap_socket(plain, server_hostname=host)
        one.sendall(API_VERSIONS)
        if not one.recv(65_536):
            raise RuntimeError("a connection was closed instead of answered")
        opened.append(one)
    print(json.dumps({"open": len(opened)}), flush=True)
    sys.stdin.read()
    return {}
