"""The replies of one channel from the first pending one on, strictly in order. Shell.

A producer sends its next batches before it receives the reply to the first. While a reply waits for other replicas, the
records of the next batches may be appended. They then reach the replicas together; otherwise each would cost its own
round trip between brokers.
"""

from collections.abc import Sequence
from typing import Protocol

from broker_runtime.errors import ProtocolError, detached
from broker_runtime.network.connection.connection_states import ConnectionState
from broker_runtime.network.connection.machine import ConnectionMachine
from broker_runtime.network.connection.shared import Shared
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.reply import PendingReply, Reply


class ReplyChannel(Protocol):
    """What OwedReplies calls on its channel."""

    @property
    def connection(self) -> ServedConnection: ...

    @property
    def machine(self) -> ConnectionMachine: ...

    @property
    def shared(self) -> Shared: ...

    def throttle(self) -> None: ...

    def give(self, replies: Sequence[Reply | ProtocolError | None], *, more: bool) -> None: ...


class OwedReplies:
    """Begins with a pending reply, which may admit other requests. Gives replies to its channel as they arrive.

    A refused request takes its place in the order, too: those before it are answered first.
    """

    __slots__ = ("_channel", "_closed", "_limit", "_owed")

    def __init__(self, first: PendingReply, channel: ReplyChannel) -> None:
        self._channel = channel
        self._limit = channel.shared.limits.connection_turn_requests
        """Maximum number of replies."""
        self._owed: list[Reply | PendingReply | ProtocolError] = [first]
        self._closed = False

    @property
    def _is_open(self) -> bool:
        """Whether a request may be handled now, before the previous ones are answered."""
        first = self._owed[0]
        is_open = not self._closed and len(self._owed) < self._limit
        return is_open and isinstance(first, PendingReply) and first.admits is not None

    def reads_on(self, now_s: float) -> bool:
        """Whether the channel reads further requests before the pending replies have arrived."""
        return self._is_open and self._channel.machine.reads_on(now_s)

    def _admits(self, frame: memoryview) -> bool:
        """Whether this request may be handled now."""
        first = self._owed[0]
        return self._is_open and isinstance(first, PendingReply) and first.admits is not None and first.admits(frame)

    def handle(self, requests: Sequence[memoryview], stop_s: float) -> int:
        """Handle requests that may be handled before the pending replies arrive, and return how many were."""
        channel = self._channel
        handler, now, connection = channel.shared.handler, channel.shared.now, channel.connection
        handled = 0
        for frame in requests:
            if not self._admits(frame) or now() >= stop_s:
                break
            handled += 1
            try:
                self._add(handler(frame, connection))
            except ProtocolError as error:
                self.refuse(error)
            if connection.throttle_s:
                channel.throttle()
                break
        return handled

    def _add(self, reply: Reply | PendingReply) -> None:
        self._owed.append(reply)
        self._closed = isinstance(reply, PendingReply) and not reply.done and reply.admits is None

    def refuse(self, error: ProtocolError) -> None:
        """Refuse the connection with `error` after the replies before it, and handle no further request."""
        self._owed.append(detached(error))
        self._closed = True

    def give_soon(self) -> None:
        """Give the first reply to the channel once it has arrived, or at once if it has; then those behind it."""
        first = self._owed[0]
        assert isinstance(first, PendingReply), "what is there has been taken"
        first.on_complete(self._first_is_there)

    def _first_is_there(self, reply: Reply | None) -> None:
        """Give the first reply, which may arrive while a request behind it is being handled."""
        channel = self._channel
        if len(self._owed) == 1 and channel.machine.state is ConnectionState.AWAITING:
            self._owed.clear()
            channel.give((reply,), more=False)
        else:
            # The replies behind it mostly arrive together with it, and then leave in one write.
            channel.shared.loop.call_soon(self._give)

    def _give(self) -> None:
        """Give all replies that have arrived, in order, up to the first that is still pending."""
        if self._owed:
            replies = self._taken()
            more = bool(self._owed)
            if more:
                self.give_soon()
            self._channel.give(replies, more=more)

    def _taken(self) -> list[Reply | ProtocolError | None]:
        """Remove and return all replies before the first pending one. None among them: close the connection."""
        found: list[Reply | ProtocolError | None] = []
        while self._owed:
            reply = self._owed[0]
            if isinstance(reply, PendingReply):
                if not reply.done:
                    break
                reply.on_complete(found.append)
            else:
                found.append(reply)
            del self._owed[0]
        return found

    def cancel(self) -> None:
        """Cancel the pending replies: no client waits for them any more."""
        for reply in self._owed:
            if isinstance(reply, PendingReply):
                reply.cancel()
        self._owed.clear()
