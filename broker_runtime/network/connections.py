"""The open connections of one server: create, evict, time out and drain them. Shell."""

import asyncio
import logging
import socket
from collections.abc import Collection, Iterable
from heapq import nsmallest

from broker_runtime.network.connection.channel import Channel
from broker_runtime.network.connection.connection import Connection, Origin
from broker_runtime.network.connection.connection_notices import (
    EVICTED,
    IDLE,
    LISTENER_CLOSED,
    STOPPED,
    ConnectionNotice,
    NoticeKind,
    reason_of,
)
from broker_runtime.network.connection.handshakes import Handshakes
from broker_runtime.network.connection.hanging_up import HangingUp
from broker_runtime.network.connection.shared import OwnedConnection, Shared
from broker_runtime.network.quotas.metrics import NetworkMetrics
from broker_runtime.network.quotas.refusals import RefusalLog
from broker_runtime.network.sockets.transport import TransportFactory
from broker_runtime.wire.handler import Authenticate, ServedConnection
from connection_limits.limit_met import rate_in_force
from connection_limits.quotas import ConnectionQuotas
from kafka_bytes.printable import printable

_log = logging.getLogger(__name__)

_SWEEP_INTERVAL_S = 1.0
_CLOSES_PER_SLICE = 100
"""Closing one takes some 20 microseconds."""
_RELIEF_INTERVAL_S = 0.02
"""Interval of closing connections while memory for answers is short."""
_NOT_READ = "responses fill sluicegate.queued.max.response.bytes, and its client does not read its own, or too slowly"


class Connections:
    """The connections of a server, from their admission to their end, which releases their slots in `quotas`.

    Timeouts are enforced from the creation of this object until `close`. Nothing is durable. Times are seconds of the
    clock in `shared`.
    """

    def __init__(
        self,
        shared: Shared,
        quotas: ConnectionQuotas,
        refusals: RefusalLog,
        figures: NetworkMetrics,
        handshakes: Handshakes,
    ) -> None:
        self._shared = shared
        self._loop = shared.loop
        self._now = shared.now
        self._quotas = quotas
        self._refusals = refusals
        self._figures = figures
        self._handshakes = handshakes
        self._open: dict[int, Connection] = {}
        self._next_id = 0
        self._reasons: dict[int, str] = {}
        """Reasons of the connections that are being closed, by connection id; kept only while notices are observed."""
        self._emptied: asyncio.Event | None = None
        self._evicting = False
        self._relieving: asyncio.Handle | None = None
        self._relieves_later = False
        """Whether `_relieving` is a timer."""
        shared.buffers.answers.on_short = self._relieve_soon
        self.hanging_up = HangingUp(shared)
        self._next_idle_sweep_s = self._now()
        self._sweep_timer: asyncio.TimerHandle | None = self._loop.call_later(_SWEEP_INTERVAL_S, self._sweep)
        shared.host = self

    def _now_ms(self) -> int:
        return int(self._now() * 1000)

    def connect(
        self,
        wrap: TransportFactory,
        authenticate: Authenticate | None,
        accepted: socket.socket,
        listener: str,
        peer: tuple[str, int],
        now_s: float,
        arrived_s: float,
    ) -> None:
        """Take over a non-blocking socket that was admitted at `now_s`; `wrap` creates its transport."""
        connection_id = self._next_id = self._next_id + 1
        channel = Channel(wrap(accepted), Origin(connection_id, listener, peer, now_s), self._shared)
        self._open[connection_id] = channel.connection
        if self._quotas.eviction_needed():
            self.evict_soon()
        publish = self._shared.notices.publish
        if publish is not None:
            rate = rate_in_force(self._quotas, listener)
            accepted_notice = ConnectionNotice(
                NoticeKind.ACCEPTED,
                listener,
                *peer,
                connection_id,
                listener_rate=rate,
                arrived_s=arrived_s,
                decided_s=now_s,
            )
            publish(accepted_notice)
        self._handshakes.begin(channel.connection, channel.transport, now_s)
        if authenticate is not None:
            authenticate(channel.connection)
        channel.start()

    def _close(self, connection: Connection, reason: str) -> None:
        if self._shared.notices.publish is not None:
            self._reasons[connection.id] = reason
        connection.close()

    def hang_up_on_those_of(self, listeners: Collection[str]) -> None:
        """Stop serving the connections of these listeners, and close them over several iterations of the event loop."""
        if self._shared.notices.publish is not None:
            self._reasons |= {c.id: LISTENER_CLOSED for c in self._open.values() if c.listener in listeners}
        self.hanging_up.begin(c for c in self._open.values() if c.listener in listeners)

    def memory_freed(self, waiting: Iterable[int]) -> None:
        for connection_id in waiting:
            self._open[connection_id].ask_for_slice()

    def connection_closed(self, connection: OwnedConnection) -> None:
        del self._open[connection.id]
        self._handshakes.closed(connection.id)
        now_s, accepted_ms = self._now(), int(self._accepted_s(connection) * 1000)
        self._quotas.on_closed(connection.listener, connection.peer[0], int(now_s * 1000), accepted_ms)
        publish = self._shared.notices.publish
        if publish is not None:
            publish(self._closed_notice(connection, now_s))
        elif self._reasons:
            self._reasons.clear()
        if self._emptied is not None and not self._open:
            self._emptied.set()

    def _closed_notice(self, connection: OwnedConnection, now_s: float) -> ConnectionNotice:
        reason = self._reasons.pop(connection.id, None) or reason_of(connection.ended_by)
        return ConnectionNotice(
            NoticeKind.CLOSED,
            connection.listener,
            *connection.peer,
            connection.id,
            reason=reason,
            open_s=now_s - self._accepted_s(connection),
            decided_s=now_s,
        )

    def _accepted_s(self, connection: OwnedConnection) -> float:
        """Return when the connection was admitted. An attribute for it would cost memory for each connection."""
        return connection.established_from_s - self._shared.limits.established_after_s

    def connection_refused(self, connection: ServedConnection, kind: str, text: str) -> None:
        if self._shared.notices.publish is not None:
            self._reasons[connection.id] = kind
        self._handshakes.refused(connection.id, connection.listener, kind)
        self.request_refused(connection, kind, text)

    def request_refused(self, connection: ServedConnection, kind: str, text: str) -> None:
        line = self._refusals.note(kind, printable(_origin(connection, text)), self._now_ms())
        if line is not None:
            _log.warning("%s", line)

    def handler_failed(self, connection: ServedConnection, error: Exception) -> None:
        line = self._refusals.note("handler-failed", _origin(connection, repr(error)), self._now_ms())
        if line is not None:
            _log.error("%s", line, exc_info=error)

    def evict_soon(self) -> None:
        """Close connections over max.connections in the next iterations of the event loop."""
        if not self._evicting and self._quotas.eviction_needed():
            self._evicting = True
            self._loop.call_soon(self._evict)

    def _evict(self) -> None:
        """Close the least recently used connections until max.connections is met, a bounded number at a time."""
        self._evicting = False
        excess = min(self._quotas.total - self._quotas.settings.max_connections, _CLOSES_PER_SLICE)
        if excess <= 0:
            return
        listeners = self._quotas.listeners
        candidates = (c for c in self._open.values() if not listeners[c.listener].protected)
        victims = nsmallest(excess, candidates, key=lambda connection: connection.last_used_s)
        for connection in victims:
            self._figures.evicted_total += 1
            self._close(connection, EVICTED)
        if victims:
            self.evict_soon()

    def _relieve_soon(self) -> None:
        """Close connections whose clients do not read their answers, in the next iteration of the event loop."""
        if self._relieving is None or (self._relieves_later and self._shared.buffers.answers.is_urgent):
            if self._relieving is not None:
                self._relieving.cancel()
            self._relieving, self._relieves_later = self._loop.call_soon(self._relieve), False

    def _relieve(self) -> None:
        """Make memory for answers available by closing the slowest readers, a bounded number at a time."""
        answers = self._shared.buffers.answers
        for connection_id in answers.slowest(_CLOSES_PER_SLICE, self._now()):
            self._open[connection_id].refuse("response-not-read", _NOT_READ)
        self._relieves_later = answers.is_short
        self._relieving = self._loop.call_later(_RELIEF_INTERVAL_S, self._relieve) if answers.is_short else None

    def _sweep(self) -> None:
        self._sweep_timer = self._loop.call_later(_SWEEP_INTERVAL_S, self._sweep)
        now_s = self._now()
        for connection_id in list(self._shared.buffers.memory.holders):
            self._open[connection_id].refuse_overdue(now_s)
        self._handshakes.end_overdue(now_s)
        if now_s >= self._next_idle_sweep_s:
            self._close_idle(now_s)

    def _close_idle(self, now_s: float) -> None:
        idle_s = self._shared.limits.connections_max_idle_ms / 1000
        # At most a twentieth of the timeout late, and never a walk over all connections each second.
        self._next_idle_sweep_s = now_s + min(idle_s / 20, 30.0)
        idle = [c for c in self._open.values() if now_s - c.last_used_s > idle_s]
        if len(idle) > _CLOSES_PER_SLICE:
            self._next_idle_sweep_s = now_s
        for connection in idle[:_CLOSES_PER_SLICE]:
            self._figures.idle_closed_total += 1
            self._close(connection, IDLE)
        self._quotas.addresses.rates.expire(int(now_s * 1000))
        self._quotas.addresses.groups.rates.meters.expire(int(now_s * 1000))

    async def drain(self, drain_s: float) -> None:
        """Wait up to `drain_s` for requests in progress to be answered. New requests are not accepted."""
        for connection in list(self._open.values()):
            connection.close(when_idle=True)
        if self._open and drain_s > 0:
            self._emptied = asyncio.Event()
            try:
                await asyncio.wait_for(self._emptied.wait(), drain_s)
            except TimeoutError:
                _log.warning("%d connections still had unanswered requests at shutdown", len(self._open))

    def close(self) -> None:
        for connection in list(self._open.values()):
            self._close(connection, STOPPED)
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        if self._relieving is not None:
            self._relieving.cancel()


def _origin(connection: ServedConnection, text: str) -> str:
    return f"closing the connection {connection.peer[0]}:{connection.peer[1]} of listener {connection.listener}: {text}"
