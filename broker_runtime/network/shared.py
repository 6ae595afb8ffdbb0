"""What all connections of one event loop have in common, and whom they tell. Shell."""

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Iterable
from typing import Protocol

from broker_runtime.clock import Clock
from broker_runtime.network.connection_notices import ConnectionNotices
from broker_runtime.network.connection_states import ConnectionEvent
from broker_runtime.network.machine import Buffers
from broker_runtime.network.poller import Poller
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.network.turns import Turns
from broker_runtime.wire.handler import FrameHandler, ServedConnection

_DEAL_S = 0.01


class OwnedConnection(ServedConnection, Protocol):
    """What the owner of the connections knows of one, besides."""

    established_from_s: float
    """When it counts as established."""

    @property
    def ended_by(self) -> ConnectionEvent | None:
        """What has ended it, first of all."""
        ...


class ConnectionHost(Protocol):
    """What the owner of the connections is told."""

    def memory_freed(self, waiting: Iterable[int]) -> None:
        """These connections, by id, may go on with requests that there was no memory for."""
        ...

    def connection_closed(self, connection: OwnedConnection) -> None: ...

    def connection_refused(self, connection: ServedConnection, kind: str, text: str) -> None:
        """The connection is about to be closed for `kind`; to be counted, and logged now and then."""
        ...

    def request_refused(self, connection: ServedConnection, kind: str, text: str) -> None:
        """As `connection_refused`, but that the connection goes on."""
        ...

    def handler_failed(self, connection: ServedConnection, error: Exception) -> None:
        """A mistake of ours, not of the client."""
        ...


class Shared:
    """What all connections of one event loop have in common."""

    __slots__ = (
        "_dealing",
        "buffers",
        "clock",
        "connection_turn_s",
        "established_used_s",
        "handler",
        "host",
        "limits",
        "loop",
        "notices",
        "now",
        "poller",
        "throttle_ends",
        "turns",
    )

    def __init__(
        self, loop: AbstractEventLoop, poller: Poller, clock: Clock, limits: NetworkLimits, handler: FrameHandler
    ) -> None:
        self.loop = loop
        self.poller = poller
        self.clock = clock
        self.now: Callable[[], float] = clock.monotonic
        self.limits = limits
        self.connection_turn_s = limits.connection_turn_s
        self.handler = handler
        self.host: ConnectionHost
        self.notices = ConnectionNotices()
        self.turns = Turns(loop, self.now, limits.turn_s, poller.is_behind)
        self.buffers = Buffers(limits, self._deal_memory)
        self._dealing = False
        self.throttle_ends: dict[int, TimerHandle] = {}
        """By the ids of connections."""
        self.established_used_s = float("-inf")
        """When a connection that is no new one last sent something."""

    def _deal_memory(self) -> None:
        """Some was given back: those that wait for it ask again, soon and all at once."""
        if len(self.buffers.memory) and not self._dealing:
            self._dealing = True
            self.loop.call_later(_DEAL_S, self._deal)

    def _deal(self) -> None:
        self._dealing = False
        self.host.memory_freed(self.buffers.memory.waiting)
