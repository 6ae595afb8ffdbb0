"""Close thousands of connections over many iterations of the event loop, and serve none of them meanwhile. Shell."""

from collections.abc import Callable, Iterable
from typing import Protocol

from broker_runtime.network.connection.connection import Connection
from broker_runtime.slicing.slice_lengths import SliceLengths
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.reply import PendingReply

SLICE_S = 0.001


class Served(Protocol):
    """The part of `Shared` that HangingUp needs."""

    @property
    def now(self) -> Callable[[], float]: ...

    @property
    def loop(self) -> "Loop": ...


class Loop(Protocol):
    """The part of the event loop that HangingUp needs."""

    def call_soon(self, callback: Callable[[], None]) -> object: ...


class HangingUp:
    """Closes many connections over several iterations of the event loop.

    It replaces the handler of each connection that `begin` gets: a request closes the connection, and is not served.
    """

    def __init__(self, shared: Served) -> None:
        self._shared = shared
        self._left: list[Connection] = []
        self.lengths = SliceLengths("hanging up")

    def begin(self, connections: Iterable[Connection]) -> None:
        is_new = not self._left
        for connection in connections:
            connection.handler = _end
            self._left.append(connection)
        if self._left and is_new:
            self._shared.loop.call_soon(self._slice)

    def _slice(self) -> None:
        now, left = self._shared.now, self._left
        begin_s = now_s = now()
        while left and now_s < begin_s + SLICE_S:
            # The connection may have ended already; closing it again has no effect.
            left.pop().close()
            now_s = now()
        self.lengths.note(now_s - begin_s, now_s)
        if left:
            self._shared.loop.call_soon(self._slice)


def _end(frame: memoryview, connection: ServedConnection) -> PendingReply:
    """Answer a request by the end of its connection."""
    del frame, connection
    nothing = PendingReply()
    nothing.complete(None)
    return nothing
