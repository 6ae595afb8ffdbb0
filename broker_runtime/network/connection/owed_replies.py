"""The replies of one connection from the first pending one on, strictly in order. Pure.

A producer sends its next batches before it receives the reply to the first. While a reply waits for other replicas, the
records of the next batches may be appended. They then reach the replicas together; otherwise each would cost its own
round trip between brokers.
"""

from collections.abc import Callable

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.reply import PendingReply, Reply


class OwedReplies:
    """Begins with a pending reply, which may admit other requests.

    A refused request takes its place in the order, too: those before it are answered first.
    """

    __slots__ = ("_closed", "_limit", "_owed")

    def __init__(self, first: PendingReply, limit: int) -> None:
        """`limit` is the maximum number of replies."""
        self._limit = limit
        self._owed: list[Reply | PendingReply | ProtocolError] = [first]
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether a request may be handled now, before the previous ones are answered."""
        first = self._owed[0]
        is_open = not self._closed and len(self._owed) < self._limit
        return is_open and isinstance(first, PendingReply) and first.admits is not None

    def admits(self, frame: memoryview) -> bool:
        """Whether this request may be handled now."""
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
        """Whether more than one reply is left."""
        return len(self._owed) > 1

    def on_first(self, callback: Callable[[Reply | None], None]) -> None:
        """Run `callback` once the first reply has arrived, or at once if it has."""
        first = self._owed[0]
        assert isinstance(first, PendingReply), "what is there has been taken"
        first.on_complete(callback)

    @property
    def awaited(self) -> PendingReply | None:
        """The first reply, if it is still pending."""
        first = self._owed[0] if self._owed else None
        return first if isinstance(first, PendingReply) and not first.done else None

    def taken(self) -> list[Reply | ProtocolError | None]:
        """Remove and return all replies before the first pending one. None among them: close the connection."""
        found: list[Reply | ProtocolError | None] = []
        while self._owed and self.awaited is None:
            reply = self._owed.pop(0)
            if isinstance(reply, PendingReply):
                reply.on_complete(found.append)
            else:
                found.append(reply)
        return found

    def cancel(self) -> None:
        """Cancel the pending replies: no client waits for them any more."""
        for reply in self._owed:
            if isinstance(reply, PendingReply):
                reply.cancel()
        self._owed.clear()
