"""The listeners, quotas and connections of one process, from start to orderly end. Shell.

Knows neither APIs nor configuration text: requests go to the handler that it is given, limits come as
`NetworkLimits`.
"""

import asyncio
import logging
import socket
from collections.abc import Collection, Iterable
from heapq import nsmallest

from broker_runtime.clock import Clock
from broker_runtime.network.acceptor import Acceptor, AcceptorRuntime, listening_socket
from broker_runtime.network.connection import Connection, Handler, Shared
from broker_runtime.network.metrics import NetworkFigures, Sample, collect
from broker_runtime.network.poller import Poller, default_poller
from broker_runtime.network.quotas import ConnectionQuotas
from broker_runtime.network.refusals import RefusalLog
from broker_runtime.network.settings import NetworkLimits, QuotaSettings
from broker_runtime.network.transport import PlainTransport
from broker_runtime.turn_lengths import TurnLengths

_log = logging.getLogger(__name__)

_SWEEP_INTERVAL_S = 1.0
_CLOSES_PER_TURN = 256


class SocketServer:
    """Must be made and used in the thread of `loop`. `poller` is given by tests only."""

    def __init__(
        self,
        handler: Handler,
        limits: NetworkLimits,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        poller: Poller | None = None,
    ) -> None:
        self.limits = limits
        self._clock = clock
        self._loop = loop
        self._now = clock.monotonic
        self._poller = poller or default_poller(loop, clock.monotonic, limits.turn_s)
        self.quotas = ConnectionQuotas(limits.quotas, self._now_ms(), self._wake)
        self.refusals = RefusalLog(int(limits.log_interval_s * 1000))
        self.figures = NetworkFigures()
        self._shared = Shared(loop, self._poller, clock, limits, handler)
        self._shared.host = self
        self._runtime = AcceptorRuntime(self._shared, self.refusals)
        self._acceptors: dict[str, Acceptor] = {}
        self._connections: dict[int, Connection] = {}
        self._next_id = 0
        self._emptied: asyncio.Event | None = None
        self._evicting = False
        self._next_idle_sweep_s = self._now()
        self._sweep_timer: asyncio.TimerHandle | None = loop.call_later(_SWEEP_INTERVAL_S, self._sweep)

    def _now_ms(self) -> int:
        return int(self._now() * 1000)

    # Listeners

    def add_listener(self, name: str, host: str, port: int) -> tuple[str, int]:
        """Bind and listen, but accept nothing before `start`; the address bound. Raises ListenerBindError."""
        listening = listening_socket(name, host, port, self.limits)
        self.quotas.add_listener(name, self._now_ms())
        acceptor = self._acceptors[name] = Acceptor(name, listening, self.quotas, self._connect, self._runtime)
        return acceptor.address

    def start(self, listener: str | None = None) -> None:
        """Accept on one listener, or on all."""
        for name, acceptor in self._acceptors.items():
            if listener is None or name == listener:
                acceptor.start()

    def remove_listener(self, name: str) -> None:
        """Close the listener and its connections."""
        self._acceptors.pop(name).close()
        self._close_connections({name})
        self.quotas.remove_listener(name, self._now_ms())

    def pause(self, listeners: Collection[str], why: str) -> None:
        """Serve nobody on these listeners: their connections are closed, new ones are hung up on until `resume`."""
        for name in listeners:
            self._acceptors[name].pause(why)
        self._close_connections(listeners)

    def resume(self, listeners: Collection[str]) -> None:
        for name in listeners:
            self._acceptors[name].resume()

    def _close_connections(self, listeners: Collection[str]) -> None:
        for connection in [c for c in self._connections.values() if c.listener in listeners]:
            connection.close()

    def address(self, listener: str) -> tuple[str, int]:
        return self._acceptors[listener].address

    @property
    def listeners(self) -> tuple[str, ...]:
        return tuple(self._acceptors)

    # Limits

    def update_limits(self, quotas: QuotaSettings) -> None:
        """Enforce new quotas from the next accepted socket on. Raises ConfigError, changing nothing."""
        self.quotas.update(quotas, self._now_ms())
        for acceptor in self._acceptors.values():
            acceptor.limits_changed()
        self._evict_soon()

    def update_ip_rate(self, ip: str | None, rate: int | None) -> None:
        """The `ip` quota entity; `ip` None is the default entity, `rate` None removes."""
        self.quotas.update_ip_rate(ip, rate, self._now_ms())

    def _wake(self, listener: str) -> None:
        acceptor = self._acceptors.get(listener)
        if acceptor is not None:
            acceptor.wake()

    # Connections

    def _connect(self, accepted: socket.socket, listener: str, peer: tuple[str, int], now_s: float) -> None:
        self._next_id += 1
        connection = Connection(PlainTransport(accepted), (self._next_id, listener, peer, now_s), self._shared)
        self._connections[connection.id] = connection
        if self.quotas.eviction_needed():
            self._evict_soon()
        connection.start()

    def memory_freed(self, waiting: Iterable[int]) -> None:
        for connection_id in waiting:
            self._connections[connection_id].ask_turn()

    def connection_closed(self, connection: Connection) -> None:
        del self._connections[connection.id]
        self.quotas.on_closed(connection.listener, connection.peer[0], self._now_ms())
        if self._emptied is not None and not self._connections:
            self._emptied.set()

    def connection_refused(self, connection: Connection, kind: str, text: str) -> None:
        line = self.refusals.note(kind, _origin(connection, text), self._now_ms())
        if line is not None:
            _log.warning("%s", line)

    def handler_failed(self, connection: Connection, error: Exception) -> None:
        line = self.refusals.note("handler-failed", _origin(connection, repr(error)), self._now_ms())
        if line is not None:
            _log.error("%s", line, exc_info=error)

    # Eviction and time-outs

    def _evict_soon(self) -> None:
        if not self._evicting and self.quotas.eviction_needed():
            self._evicting = True
            self._loop.call_soon(self._evict)

    def _evict(self) -> None:
        """Close the least recently used connections until max.connections holds, a bounded number at a time."""
        self._evicting = False
        excess = min(self.quotas.total - self.quotas.settings.max_connections, _CLOSES_PER_TURN)
        if excess <= 0:
            return
        listeners = self.quotas.listeners
        candidates = (c for c in self._connections.values() if not listeners[c.listener].protected)
        victims = nsmallest(excess, candidates, key=lambda connection: connection.last_used_s)
        for connection in victims:
            self.figures.evicted_total += 1
            connection.close()
        if victims:
            self._evict_soon()

    def _sweep(self) -> None:
        self._sweep_timer = self._loop.call_later(_SWEEP_INTERVAL_S, self._sweep)
        now_s = self._now()
        for connection_id in list(self._shared.buffers.memory.holders):
            self._connections[connection_id].refuse_overdue(now_s)
        if now_s >= self._next_idle_sweep_s:
            self._close_idle(now_s)

    def _close_idle(self, now_s: float) -> None:
        idle_s = self.limits.connections_max_idle_ms / 1000
        # Late by a twentieth of the time-out at most, and never a walk over all connections each second.
        self._next_idle_sweep_s = now_s + min(idle_s / 20, 30.0)
        idle = [c for c in self._connections.values() if now_s - c.last_used_s > idle_s]
        if len(idle) > _CLOSES_PER_TURN:
            self._next_idle_sweep_s = now_s
        for connection in idle[:_CLOSES_PER_TURN]:
            self.figures.idle_closed_total += 1
            connection.close()
        self.quotas.ip_rates.expire(int(now_s * 1000))

    # Figures

    def collect(self) -> Iterable[Sample]:
        memory = self._shared.buffers.memory
        self.figures.buffered_bytes = memory.total
        self.figures.unfinished_requests = len(memory.holders)
        self.figures.requests_without_memory = len(memory)
        return collect(self.quotas, self.figures, self.refusals, self._acceptors.values(), self._now_ms())

    @property
    def turn_lengths(self) -> Iterable[TurnLengths]:
        return self._poller.lengths, self._shared.turns.lengths

    # The end

    async def shutdown(self, drain_s: float) -> None:
        """Accept nothing more, give requests in progress `drain_s` to be answered, close everything."""
        for acceptor in self._acceptors.values():
            acceptor.close()
        for connection in list(self._connections.values()):
            connection.close_when_idle()
        if self._connections and drain_s > 0:
            self._emptied = asyncio.Event()
            try:
                await asyncio.wait_for(self._emptied.wait(), drain_s)
            except TimeoutError:
                _log.warning("%d connections were still being answered at shutdown", len(self._connections))
        self.close()

    def close(self) -> None:
        """Close everything at once."""
        for acceptor in self._acceptors.values():
            acceptor.close()
        for connection in list(self._connections.values()):
            connection.close()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
            self._poller.close()


def _origin(connection: Connection, text: str) -> str:
    return f"closing {connection.peer[0]}:{connection.peer[1]} of {connection.listener}: {text}"
