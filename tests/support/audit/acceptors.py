"""Acceptors of a broker in virtual time, with clients that connect, hang up and stay; an audit log records them.

The acceptors, the limiter and the audit log are the broker's. Invented are the event loop, the sockets and the
connections after their admission. The loop is late by a random time, as a busy one.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa

from audit_pipeline.spool.spool import read_spool
from audit_pipeline.spool.tables import tables_of
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.network.accepting.acceptor import Acceptor
from broker_runtime.network.accepting.acceptor_runtime import AcceptorRuntime
from broker_runtime.network.connection.connection_notices import (
    BY_CLIENT,
    ConnectionNotice,
    ConnectionNotices,
    NoticeKind,
)
from broker_runtime.network.connection.shared import Shared
from broker_runtime.network.quotas.changing_groups import ChangingGroups
from broker_runtime.network.quotas.limit_changes import LimitChanges
from broker_runtime.network.quotas.refusals import RefusalLog
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.node.metadata_before import MetadataNow
from broker_runtime.observers.audit_log.limits_log import LimitsLog
from broker_runtime.observers.audit_log.log import AuditDependencies, AuditLog
from broker_runtime.observers.audit_log.settings import read_settings
from broker_runtime.observers.audit_log.spool import SpoolIdentity
from broker_runtime.storage.disk.filesystem import FileSystem, read_file
from connection_limits.adaptive_rates import AdaptiveRates
from connection_limits.cluster_rates import MovedShare
from connection_limits.limit_met import rate_in_force
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import QuotaSettings
from tests.support.audit.audit import API_NAMES
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem

FOLDER = Path("/audit")
_ESTABLISHED, _CLOSE_WAIT = 1, 8


class _Timer:
    def __init__(self, is_late: bool) -> None:
        self.is_late = is_late
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class LateLoop:
    """An event loop whose callbacks take time. `now` returns seconds, and each call takes a few microseconds."""

    def __init__(self, random: Random, lateness_s: float) -> None:
        self.now_s = 5_000.0
        self._random = random
        self._lateness_s = lateness_s
        self._timers: list[tuple[float, int, _Timer, Callable[[], object]]] = []
        self._soon: deque[Callable[[], object]] = deque()
        self._readers: dict[int, Callable[[], object]] = {}
        self.readable: Callable[[int], bool] = lambda fd: False
        self._count = 0

    def now(self) -> float:
        self.now_s += self._random.randrange(20) / 1e6
        return self.now_s

    def wall_ms(self) -> int:
        return int(self.now_s * 1000) + 1_700_000_000_000

    monotonic = now

    def call_soon(self, callback: Callable[..., object], *arguments: object) -> None:
        self._soon.append(lambda: callback(*arguments))

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> _Timer:
        return self._call_at(self.now_s + delay_s, callback, is_late=True)

    def happens_in(self, delay_s: float, callback: Callable[[], object]) -> None:
        """Let something outside of the broker happen, which takes none of its time."""
        self._call_at(self.now_s + delay_s, callback, is_late=False)

    def _call_at(self, at_s: float, callback: Callable[[], object], *, is_late: bool) -> _Timer:
        timer = _Timer(is_late)
        self._count += 1
        heappush(self._timers, (at_s, self._count, timer, callback))
        return timer

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None:
        self._readers[fd] = callback

    def remove_reader(self, fd: int) -> None:
        self._readers.pop(fd, None)

    def run_until(self, end_s: float) -> None:
        while self.now_s < end_s:
            callbacks: list[Callable[[], object]] = []
            while self._timers and self._timers[0][0] <= self.now_s:
                _, _, timer, callback = heappop(self._timers)
                if not timer.is_late:
                    callback()
                elif not timer.is_cancelled:
                    callbacks.append(callback)
            callbacks += [callback for fd, callback in list(self._readers.items()) if self.readable(fd)]
            callbacks += self._soon
            self._soon.clear()
            if not callbacks:
                self.now_s = max(self.now_s, min(end_s, self._timers[0][0] if self._timers else end_s))
            for callback in callbacks:
                callback()
                self.now_s += self._random.random() ** 4 * self._lateness_s


class InventedSocket:
    """The end of a client's connection in the broker."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.has_hung_up = self.is_closed = False

    def getsockopt(self, *_: object) -> bytes:
        return bytes([_CLOSE_WAIT if self.has_hung_up else _ESTABLISHED])

    def recv(self, *_: object) -> bytes:
        if not self.has_hung_up:
            raise BlockingIOError
        return b""

    def setblocking(self, _: bool) -> None: ...

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        self.is_closed = True


class InventedListening:
    """A listening socket with the clients that wait in the kernel."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.clients: deque[tuple[InventedSocket, tuple[str, int]]] = deque()

    def fileno(self) -> int:
        return self._number

    def listen(self, _: int) -> None: ...

    def getsockopt(self, *_: object) -> bytes:
        return bytes(24) + len(self.clients).to_bytes(4, "little")

    def accept(self) -> tuple[InventedSocket, tuple[str, int]]:
        if not self.clients:
            raise BlockingIOError
        return self.clients.popleft()

    def close(self) -> None: ...


class AcceptorBench:
    """The acceptors of one broker with these limits and listeners. It writes its spools into `folder`.

    With `is_busy`, established clients always send requests, so new ones also wait in the kernel.
    """

    def __init__(
        self,
        random: Random,
        settings: QuotaSettings,
        listeners: tuple[str, ...],
        lateness_s: float = 0.004,
        fs: FileSystem | None = None,
        folder: Path = FOLDER,
        *,
        is_busy: bool = False,
        **config: str,
    ) -> None:
        self.loop = loop = LateLoop(random, lateness_s)
        self._fs, self._folder = fs or MemoryFileSystem(), folder
        dependencies = AuditDependencies(
            SpoolIdentity("cluster", 7, "0001"),
            folder,
            API_NAMES,
            self._fs,
            cast(Any, loop),
            loop.call_later,
            MetadataNow(MetadataImage()),
        )
        self._log = AuditLog(
            read_settings({name.replace("_", "."): value for name, value in config.items()}), dependencies
        )
        self._notices = ConnectionNotices()
        self._notices.observe(self._log.record_connection)
        self.began_ms = int(loop.now_s * 1000)
        # Refused sockets are closed at once: their descriptors are invented.
        settings = replace(settings, max_delayed_closes=0)
        self.quotas = ConnectionQuotas(settings, self.began_ms, self._wake)
        for name in listeners:
            self.quotas.add_listener(name, self.began_ms)
        self.changes = LimitChanges(self.quotas, loop.now)
        self.groups = ChangingGroups(self.quotas.addresses.groups, loop.now, cast(Any, loop), self.changes)
        self._adaptive = AdaptiveRates(self.quotas, self.began_ms)
        self._limits_log = LimitsLog(self._log, self.changes, loop.call_later, 3600.0)
        shared = SimpleNamespace(
            loop=loop,
            now=loop.now,
            limits=NetworkLimits(quotas=settings),
            notices=self._notices,
            established_used_s=inf if is_busy else 0.0,
            newcomers_s=0.0,
        )
        runtime = AcceptorRuntime(cast(Shared, shared), self.quotas, RefusalLog(10_000))
        self._listening = {name: InventedListening(10 + number) for number, name in enumerate(listeners)}
        self._acceptors = {
            name: Acceptor(name, cast(Any, self._listening[name]), self._connect, runtime) for name in listeners
        }
        by_number = {listening.fileno(): listening for listening in self._listening.values()}
        loop.readable = lambda fd: bool(by_number[fd].clients)
        for acceptor in self._acceptors.values():
            acceptor.start()
        self._is_closed = False
        self._next_id = 0
        self._sockets = 100
        self._stays_s: dict[int, float | None] = {}

    def client(self, listener: str, ip: str, at_s: float, patience_s: float | None, stays_s: float | None) -> None:
        """Plan a client. It hangs up after `patience_s` if it is not admitted, and `stays_s` after its admission."""

        def connect() -> None:
            self._sockets += 1
            accepted = InventedSocket(self._sockets)
            self._stays_s[self._sockets] = stays_s
            self._listening[listener].clients.append((accepted, (ip, 10_000 + self._sockets)))
            if patience_s is not None:
                self.loop.happens_in(patience_s, lambda: setattr(accepted, "has_hung_up", True))

        self.loop.happens_in(at_s, connect)

    def pause(self, listener: str, at_s: float) -> None:
        """Plan that the listener serves no client for a tenth of a second."""
        acceptor = self._acceptors[listener]
        self.loop.call_later(at_s, lambda: acceptor.pause("the broker is fenced"))
        self.loop.call_later(at_s + 0.1, acceptor.resume)

    def record_limits(self) -> None:
        """Report the limits in force, and every change of them from now on."""
        self._limits_log.begin()

    def update_limits(self, settings: QuotaSettings) -> None:
        """Apply other settings as `SocketServer.update_limits` does."""
        settings = replace(settings, max_delayed_closes=0)
        before, now_s = self.quotas.settings, self.loop.now()
        self.quotas.update(settings, int(now_s * 1000))
        self.changes.settings(before, now_s)
        for acceptor in self._acceptors.values():
            acceptor.limits_changed()

    def update_ip_rate(self, ip: str | None, rate: int | None) -> None:
        """Change the rate of an address as `SocketServer.update_ip_rate` does."""
        now_s = self.loop.now()
        self.quotas.addresses.update_rate(ip, rate, int(now_s * 1000))
        self.changes.ip_rate(ip, rate, now_s)

    def adapt(self, newcomers_ms: float, delays_ms: Sequence[float]) -> None:
        """Decide the adaptive rates by these delays, as `AdaptiveLimits` does every half second."""
        for delay_ms in delays_ms:
            self._adaptive.add_delay(delay_ms)
        now_s = self.loop.now()
        for moved in self._adaptive.decide(newcomers_ms, int(now_s * 1000)):
            self.changes.adapted(moved.listener, moved.adaptive.rate, now_s)
            for name, acceptor in self._acceptors.items():
                if moved.listener is None or name == moved.listener:
                    acceptor.limits_changed()

    def apply_shares(self, moved: Sequence[MovedShare], now_s: float, *, changed: bool) -> None:
        """Report shares of rates of the cluster that have moved, as `ConnectionShares` does."""
        self.changes.shares(moved, now_s)
        if changed:
            self.quotas.settings = replace(self.quotas.settings, max_delayed_closes=0)
            for acceptor in self._acceptors.values():
                acceptor.limits_changed()

    @property
    def queued(self) -> dict[str, int]:
        """The number of clients that wait for the quotas, by listener."""
        return {name: count for name, one in self._acceptors.items() if (count := one.waiting_total)}

    def close_listener(self, name: str) -> None:
        """Remove a listener as `SocketServer.remove_listener` does. Its clients stay connected."""
        self._acceptors.pop(name).close()
        self._listening[name].clients.clear()
        now_s = self.loop.now()
        self.quotas.retire_listener(name, int(now_s * 1000))
        self.changes.listener(name, now_s, is_open=False)

    def _wake(self, listener: str) -> None:
        acceptor = self._acceptors.get(listener)
        if acceptor is not None:
            acceptor.wake()

    def _connect(self, accepted: Any, listener: str, peer: tuple[str, int], now_s: float, arrived_s: float) -> None:
        """Open a connection as `Connections.connect` does, and end it after its time."""
        self._next_id += 1
        number = self._next_id
        rate = rate_in_force(self.quotas, listener)
        self._log.record_connection(
            ConnectionNotice(
                NoticeKind.ACCEPTED, listener, *peer, number, listener_rate=rate, arrived_s=arrived_s, decided_s=now_s
            )
        )

        def close() -> None:
            end_s = self.loop.now()
            self.quotas.on_closed(listener, peer[0], int(end_s * 1000), int(now_s * 1000))
            self._log.record_connection(
                ConnectionNotice(
                    NoticeKind.CLOSED, listener, *peer, number, reason=BY_CLIENT, open_s=end_s - now_s, decided_s=end_s
                )
            )

        stays_s = self._stays_s.pop(accepted.fileno())
        if stays_s is not None:
            self.loop.call_later(stays_s, close)

    def stop(self) -> None:
        """Stop all acceptors, as a broker does that ends. Clients that wait are closed."""
        for acceptor in self._acceptors.values():
            acceptor.close()

    def close(self) -> None:
        """End the log; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._limits_log.close()
            self._log.close()

    def rows(self, table: str = "connection") -> pa.Table:
        """End the log, and return the rows of a table of it, no column without any."""
        self.close()
        names = sorted(name for name in self._fs.listdir(self._folder) if name.endswith(".spool"))
        found = [tables_of(read_spool(read_file(self._fs, self._folder / name))) for name in names]
        parts = [tables[table] for tables in found if table in tables]
        return pa.concat_tables(parts) if parts else pa.table({})
