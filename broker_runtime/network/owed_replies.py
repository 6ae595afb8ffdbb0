"""The replies of one connection from the first on that is still awaited, strictly in order. Pure.

A producer sends its next batches before it has heard of the first. Where a reply waits for other replicas, the records
of the next ones may be appended meanwhile, so that they reach the replicas together: each would else pay for a round
trip between brokers of its own.
"""

from collections.abc import Callable

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.reply import PendingReply, Reply


class OwedReplies:
    """Begins with a reply that is awaited, which may admit other requests. A request that is refused takes its place in
    the order, too: those before it are answered first.
    """

    __slots__ = ("_closed", "_limit", "_owed")

    def __init__(self, first: PendingReply, limit: int) -> None:
        """`limit` is how many there may be."""
        self._limit = limit
        self._owed: list[Reply | PendingReply | ProtocolError] = [first]
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether there may be a request that is carried out now, before those before it are answered."""
        first = self._owed[0]
        is_open = not self._closed and len(self._owed) < self._limit
        return is_open and isinstance(first, PendingReply) and first.admits is not None

    def admits(self, frame: memoryview) -> bool:
        """Whether this is one."""
        first = self._owed[0]
        return self.is_open and isinstance(first, PendingReply) and first.admits is not None and first.admits(frame)

    def add(self, reply: Reply | PendingReply | ProtocolError) -> None:
        self._owed.append(reply)
        if isinstance(reply, PendingReply):
            self._closed = not reply.done and reply.admits is None
        else:
            self._closed = isinstance(reply, ProtocolError)

    @property
    def has_others(self) -> bool:
        """Whether more than one is owed."""
        return len(self._owed) > 1

    def on_first(self, callback: Callable[[Reply | None], None]) -> None:
        """Run `callback` once the first is there, at once if it is."""
        first = self._owed[0]
        assert isinstance(first, PendingReply), "what is there has been taken"
        first.on_complete(callback)

    @property
    def awaited(self) -> PendingReply | None:
        """The first reply, when it is not there yet."""
        first = self._owed[0] if self._owed else None
        return first if isinstance(first, PendingReply) and not first.done else None

    def taken(self) -> list[Reply | ProtocolError | None]:
        """All up to the first that is not there yet; None: the connection is to be closed."""
        found: list[Reply | ProtocolError | None] = []
        while self._owed and self.awaited is None:
            reply = self._owed.pop(0)
            if isinstance(reply, PendingReply):
                reply.on_complete(found.append)
            else:
                found.append(reply)
        return found

    def cancel(self) -> None:
        """Nobody waits for them any more."""
        for reply in self._owed:
            if isinstance(reply, PendingReply):
                reply.cancel()
        self._owed.clear()
