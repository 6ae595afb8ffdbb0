"""The replies of one connection from the first pending one on, strictly in order. Pure.

A producer sends its next batches before it receives the reply to the first. While a reply waits for other replicas, the
records of the next batches may be appended. They then reach the replicas together; otherwise each would cost its own
round trip between brokers.
"""

from broker_runtime.errors import ProtocolError, detached
from broker_runtime.wire.reply import PendingReply, Reply


class OwedReplies:
    """The pending replies of a connection, in order, at most `limit`.

    The first reply decides whether further requests may be handled before it exists (`admits`). An error that ends the
    connection also waits for its place in the order: replies to earlier requests are sent first.
    """

    __slots__ = ("_closed", "_limit", "_owed", "is_awaited")

    def __init__(self, first: PendingReply, limit: int) -> None:
        self._limit = limit
        self._owed: list[Reply | PendingReply | ProtocolError] = [first]
        self._closed = False
        self.is_awaited = False
        """Whether the connection is called back when the first reply exists."""

    def __len__(self) -> int:
        return len(self._owed)

    @property
    def first(self) -> PendingReply:
        """Return the first reply, which is pending."""
        first = self._owed[0]
        assert isinstance(first, PendingReply), "what exists has been taken"
        return first

    @property
    def is_open(self) -> bool:
        """Return whether a request may be handled now, before the previous ones are answered."""
        return not self._closed and len(self._owed) < self._limit and self.first.admits is not None

    def admits(self, frame: memoryview) -> bool:
        """Return whether this request may be handled now."""
        admits = self.first.admits
        return self.is_open and admits is not None and admits(frame)

    def add(self, reply: Reply | PendingReply) -> None:
        """Add the reply to the next request."""
        self._owed.append(reply)
        self._closed = isinstance(reply, PendingReply) and not reply.done and reply.admits is None

    def refuse(self, error: ProtocolError) -> None:
        """Refuse the connection with `error` after the earlier replies, and handle no further request."""
        self._owed.append(detached(error))
        self._closed = True

    def taken(self) -> list[Reply | ProtocolError | None]:
        """Remove and return all replies before the first pending one.

        None in the result stands for a reply that closes the connection.
        """
        found: list[Reply | ProtocolError | None] = []
        while self._owed:
            reply = self._owed[0]
            if isinstance(reply, PendingReply):
                if not reply.done:
                    break
                found.append(reply.existing)
            else:
                found.append(reply)
            del self._owed[0]
        self.is_awaited = False
        return found

    def cancel(self) -> None:
        """Cancel the pending replies: no client waits for them any more."""
        for reply in self._owed:
            if isinstance(reply, PendingReply):
                reply.cancel()
        self._owed.clear()
