"""One client connection as its handlers and its owner know it. Shell.

`Channel` moves its bytes and requests. `machine` and `connection_states` define what a connection may do in each state.
This module knows neither APIs nor quotas.
"""

from math import inf
from typing import NamedTuple, Protocol

from broker_runtime.errors import ProtocolError
from broker_runtime.network.connection.connection_states import ConnectionEvent, ConnectionState
from broker_runtime.network.connection.machine import ConnectionMachine
from broker_runtime.network.connection.shared import Shared
from broker_runtime.network.sockets.closed_observers import ClosedObservers
from broker_runtime.network.sockets.transport import Transport
from broker_runtime.security.principal import ANONYMOUS
from broker_runtime.wire.handler import FrameHandler

_CLOSED = ConnectionState.CLOSED
_WAITS_FOR_SLICE = (ConnectionState.QUEUED, ConnectionState.THROTTLED, ConnectionState.SHORT_OF_MEMORY)

HANDSHAKE_REFUSED, HANDSHAKE_CUT_OFF = "tls-handshake-refused", "tls-handshake-cut-off"
"""Kinds of refusals: one side refused the other, or the connection ended within the handshake."""


class Origin(NamedTuple):
    """The origin of a connection. `peer` is the client's address and port."""

    connection_id: int
    listener: str
    peer: tuple[str, int]
    accepted_s: float


class OpenChannel(Protocol):
    """The part of a channel that a Connection needs. A Connection has no channel after its end."""

    @property
    def transport(self) -> Transport: ...

    def ask_for_slice(self) -> None:
        """Request a time slice for the work that had to wait."""
        ...

    def go_on(self) -> None:
        """Send the outgoing bytes, or continue with the next work of the connection."""
        ...

    def stop(self) -> None:
        """Close the transport of the connection, and cancel everything that waits for it."""
        ...


class Connection:
    """One connection: its identity, its observers, and its end, which comes once, with everything that belongs to it.

    `state` belongs to the API layer. Handlers use it as `wire.handler.ServedConnection`. Times are seconds of the clock
    in `Shared`.
    """

    __slots__ = (
        "_channel",
        "_machine",
        "_observers",
        "_shared",
        "ended_by",
        "established_from_s",
        "handler",
        "heavy_s",
        "id",
        "last_used_s",
        "listener",
        "new_until_s",
        "peer",
        "principal",
        "state",
        "throttle_s",
    )

    def __init__(self, origin: Origin, machine: ConnectionMachine, channel: OpenChannel, shared: Shared) -> None:
        self.id, self.listener, self.peer, self.last_used_s = origin
        self.established_from_s = self.last_used_s + shared.limits.established_after_s
        self.new_until_s = inf
        """Time until which its events count as work of new connections; infinite before its client's first bytes."""
        self.ended_by: ConnectionEvent | None = None
        self.state: object = None
        self.handler: FrameHandler = shared.handler
        self.principal = ANONYMOUS
        self.throttle_s = 0.0
        self.heavy_s = 0.0
        self._machine = machine
        self._channel: OpenChannel | None = channel
        """None once the connection has ended: the two would otherwise be a reference cycle."""
        self._shared = shared
        self._observers: ClosedObservers | None = None

    def __str__(self) -> str:
        return f"the client {self.peer[0]}:{self.peer[1]} of {self.listener}"

    @property
    def has_unread(self) -> bool:
        """Return whether bytes of the client wait only because this process is busy.

        False while an earlier request of this client is pending.
        """
        state = self._machine.state
        if state is not ConnectionState.READING:
            return state in _WAITS_FOR_SLICE
        return self._channel is not None and self._channel.transport.holds_unread

    def keep_frame(self, frame: memoryview) -> memoryview:
        """Implement `wire.handler.ServedConnection`: return the frame's bytes, valid until the reply."""
        return self._machine.incoming.hold(frame)

    def release_frame(self, copied_bytes: int = 0) -> None:
        """Implement `wire.handler.ServedConnection`: release the kept frame, and count copied bytes instead."""
        self._machine.incoming.release(0 if self._machine.state is _CLOSED else copied_bytes)

    def limit_requests(self, bytes_max: int | None) -> None:
        """Implement `wire.handler.AuthenticatingConnection`: set the size of the largest frame."""
        usual = self._shared.limits.max_request_bytes
        self._machine.incoming.max_request_bytes = usual if bytes_max is None else min(bytes_max, usual)

    def push(self, frame: bytes) -> bool:
        """Send an unsolicited whole frame, size field included: between replies, in the order of the calls.

        Returns False if the connection has ended. The connection also ends if the client leaves more than
        sluicegate.connection.push.max.bytes of such frames unread.
        """
        machine, channel = self._machine, self._channel
        if channel is None or machine.state is _CLOSED:
            return False
        if not machine.push(frame):
            self.refuse("push-not-read", "the client has too many unread bytes of frames that are not responses")
            return False
        channel.go_on()
        return machine.state is not _CLOSED

    def ask_for_slice(self) -> None:
        """Continue in the connection's time slice with a request that had to wait for memory."""
        if self._channel is not None:
            self._channel.ask_for_slice()

    @property
    def closed(self) -> ClosedObservers:
        """Return the observers to call when this connection ends."""
        if self._observers is None:
            self._observers = ClosedObservers(self._shared.limits.closed_observers_max)
            if self._machine.state is _CLOSED:
                self._notify_observers(self._observers)
        return self._observers

    def _notify_observers(self, observers: ClosedObservers) -> None:
        for observer in observers.taken():
            try:
                observer()
            except Exception as error:  # noqa: BLE001 - the host logs it; the other observers are still called
                self._shared.host.handler_failed(self, error)

    def refuse(self, kind: str, text: str, *, ends: bool = True) -> None:
        """Count a bad request by `kind`, log it at intervals, and end the connection unless `ends` is False.

        For requests that prove bad after their handler has returned a PendingReply; before that the handler raises.
        """
        if ends:
            self.end(ConnectionEvent.REFUSE, ProtocolError(kind, text))
        else:
            self._shared.host.request_refused(self, kind, text)

    def refuse_in(self, delay_s: float, kind: str, text: str) -> None:
        """Implement `wire.handler.AuthenticatingConnection`: end the connection after `delay_s`.

        Its handler must answer no further request: the timer of a throttle time would replace that of the close.
        """
        if self._machine.state is not _CLOSED:
            self._shared.host.connection_refused(self, kind, text)
            self._shared.timers.set(self.id, delay_s, self.close)

    def refuse_overdue(self, now_s: float) -> None:
        """End the connection if its unfinished request has made no progress in time."""
        problem = self._machine.overdue(now_s)
        if problem is not None:
            self.end(ConnectionEvent.OVERDUE, problem)

    def close(self, *, when_idle: bool = False) -> None:
        """Close the connection at once, or with `when_idle` after current requests are answered.

        New requests are not accepted.
        """
        self.end(ConnectionEvent.FINISH if when_idle else ConnectionEvent.CLOSE)

    def end(self, event: ConnectionEvent, problem: ProtocolError | None = None) -> None:
        """Apply `event`, which ends the connection now, or after its current requests.

        A `problem` is counted and logged, unless the connection has ended.
        """
        if problem is not None:
            if self._machine.state is _CLOSED:
                return
            self._shared.host.connection_refused(self, problem.kind, str(problem))
        if self.ended_by is None:
            self.ended_by = event
        self._machine.end(event)
        if self._machine.state is _CLOSED:
            self._release()

    def _release(self) -> None:
        """Release everything that belongs to the connection. Its machine must be closed. A second call does nothing."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.stop()
            if self._observers is not None:
                self._notify_observers(self._observers)
            self._shared.host.connection_closed(self)
