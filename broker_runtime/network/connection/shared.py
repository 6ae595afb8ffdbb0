"""State that all connections of one event loop share, and the interface of their owner. Shell."""

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Iterable
from typing import Protocol

from broker_runtime.clock import Clock
from broker_runtime.network.connection.connection_notices import ConnectionNotices
from broker_runtime.network.connection.connection_states import ConnectionEvent
from broker_runtime.network.connection.received.incoming import SharedBuffers
from broker_runtime.network.connection.time_slices import TimeSlices
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.network.sockets.poller import Poller
from broker_runtime.wire.answer_memory import AnswerMemory
from broker_runtime.wire.handler import FrameHandler, ServedConnection

_DEAL_S = 0.01


class OwnedConnection(ServedConnection, Protocol):
    """The additional attributes of a connection that its owner uses."""

    established_from_s: float
    """Time from which the connection counts as established."""

    @property
    def ended_by(self) -> ConnectionEvent | None:
        """Return the first event that ended the connection; None before that."""
        ...


class ConnectionHost(Protocol):
    """The owner of connections, as the connections see it: the events that it receives."""

    def memory_freed(self, waiting: Iterable[int]) -> None:
        """Let these connections, by id, continue with requests that there was no memory for."""
        ...

    def connection_closed(self, connection: OwnedConnection) -> None: ...

    def connection_refused(self, connection: ServedConnection, kind: str, text: str) -> None:
        """Count the coming close of the connection by `kind`, and log it at intervals."""
        ...

    def request_refused(self, connection: ServedConnection, kind: str, text: str) -> None:
        """Count and log like `connection_refused`, for a connection that continues."""
        ...

    def handler_failed(self, connection: ServedConnection, error: Exception) -> None:
        """Log a bug in the broker, not a client's error."""
        ...


class ConnectionTimers:
    """The timers of connections: the end of a throttle time, or a delayed close. Each connection has at most one.

    Most connections never have one.
    """

    __slots__ = ("_loop", "_timers")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._timers: dict[int, TimerHandle] = {}
        """Timers by connection id."""

    def set(self, connection_id: int, delay_s: float, callback: Callable[[], None]) -> None:
        """Call `callback` for the connection after `delay_s`. This replaces the timer that the connection has."""
        self.forget(connection_id)
        self._timers[connection_id] = self._loop.call_later(delay_s, callback)

    def forget(self, connection_id: int) -> None:
        """Cancel the timer of the connection, if it has one."""
        timer = self._timers.pop(connection_id, None)
        if timer is not None:
            timer.cancel()


class Shared:
    """The state that all connections of one event loop share."""

    __slots__ = (
        "_dealing",
        "buffers",
        "clock",
        "established_used_s",
        "handler",
        "host",
        "limits",
        "loop",
        "newcomers_s",
        "notices",
        "now",
        "poller",
        "slices",
        "timers",
    )

    def __init__(
        self,
        loop: AbstractEventLoop,
        poller: Poller,
        clock: Clock,
        limits: NetworkLimits,
        handler: FrameHandler,
        answers: AnswerMemory | None = None,
    ) -> None:
        self.loop = loop
        self.poller = poller
        self.clock = clock
        self.now: Callable[[], float] = clock.monotonic
        self.limits = limits
        self.handler = handler
        self.host: ConnectionHost
        self.notices = ConnectionNotices()
        self.slices = TimeSlices(loop, self.now, limits.turn_s, poller.is_behind)
        self.buffers = SharedBuffers(limits, self._deal_memory, answers)
        self._dealing = False
        self.timers = ConnectionTimers(loop)
        self.established_used_s = float("-inf")
        """Time at which an established connection last sent something."""
        self.newcomers_s = 0.0
        """Time in seconds that the event loop has spent on new connections: it accepts them, reads from them, and
        handles what they sent, until a second after their first bytes.
        """

    def _deal_memory(self) -> None:
        """Let waiting connections ask again after memory was released: soon, and all at once."""
        if len(self.buffers.memory) and not self._dealing:
            self._dealing = True
            self.loop.call_later(_DEAL_S, self._deal)

    def _deal(self) -> None:
        self._dealing = False
        self.host.memory_freed(self.buffers.memory.waiting)
