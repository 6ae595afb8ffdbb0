"""One client connection: move bytes between its transport and its machine, and requests to the handler. Shell.

`machine` and `connection_states` define what a connection may do in each state. Requests beyond what one turn allows
wait in `Turns`. This module knows neither APIs nor quotas.
"""

import errno
from collections.abc import Sequence
from math import inf

from broker_runtime.errors import ProtocolError, detached
from broker_runtime.network.connection.connection_states import ConnectionEvent, ConnectionState
from broker_runtime.network.connection.machine import ConnectionMachine
from broker_runtime.network.connection.output import send
from broker_runtime.network.connection.owed_replies import OwedReplies
from broker_runtime.network.connection.shared import Shared
from broker_runtime.network.sockets.closed_observers import ClosedObservers
from broker_runtime.network.sockets.interest import Interest
from broker_runtime.network.sockets.transport import FileUnreadableError, Transport
from broker_runtime.wire.reply import Chunk, PendingReply, Reply

_OUTPUT_TURN_BYTES = 256 * 1024
"""Replies are sent when they add up to this many bytes, so that many small requests cannot pile up huge replies."""
_GONE = frozenset(
    {errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTUNREACH, errno.ECONNABORTED}
)
_READING, _QUEUED, _THROTTLED, _CLOSED = (
    ConnectionState.READING,
    ConnectionState.QUEUED,
    ConnectionState.THROTTLED,
    ConnectionState.CLOSED,
)


Origin = tuple[int, str, tuple[str, int], float]
"""Connection id, listener, peer, time of the accept in seconds."""


class _Considerate:
    """The part of a connection that yields to other connections while its requests take long."""

    __slots__ = ("_is_heavy",)

    _machine: ConnectionMachine
    _is_heavy: bool

    def was_heavy(self) -> None:
        """Implement `poller.Pollable` and `turns.Waiting`."""
        self._is_heavy = True

    def keep_frame(self, frame: memoryview) -> memoryview:
        """Implement `wire.handler.ServedConnection`."""
        return self._machine.hold(frame)

    def release_frame(self) -> None:
        """Implement `wire.handler.ServedConnection`."""
        self._machine.release()


class Connection(_Considerate):
    """Owns `transport`. `state` belongs to the API layer. Times are seconds of the clock in `Shared`.

    Handlers use it as `wire.handler.ServedConnection`.
    """

    __slots__ = (
        "_interest",
        "_machine",
        "_observers",
        "_owed",
        "_shared",
        "_transport",
        "_turn_asked",
        "ended_by",
        "established_from_s",
        "id",
        "last_used_s",
        "listener",
        "peer",
        "state",
        "throttle_s",
    )

    def __init__(self, transport: Transport, origin: Origin, shared: Shared) -> None:
        self._transport = transport
        self.id = origin[0]
        self.listener = origin[1]
        self.peer = origin[2]
        self.last_used_s = origin[3]
        self.established_from_s = origin[3] + shared.limits.established_after_s
        self.ended_by: ConnectionEvent | None = None
        self.state: object = None
        self.throttle_s = 0.0
        self._shared = shared
        self._machine = ConnectionMachine(origin[0], origin[2][0], shared.buffers)
        self._owed: OwedReplies | None = None
        """The awaited reply and those behind it; None if no reply is pending."""
        self._observers: ClosedObservers | None = None
        self._interest = Interest(transport, shared.poller)
        """Reading is switched off only when bytes arrive while the client is muted: mostly none do."""
        self._turn_asked = False
        self._is_heavy = False
        """The last request held the event loop for long: the connection reads again only in its next turn."""

    def __str__(self) -> str:
        return f"the client {self.peer[0]}:{self.peer[1]} of {self.listener}"

    def start(self) -> None:
        """Read what the client has already sent, then wait for more."""
        self.on_readable()
        if self._machine.state is not _CLOSED:
            self._interest.begin(self)

    def on_readable(self) -> None:
        shared, machine = self._shared, self._machine
        if self._is_heavy and machine.state is _READING:
            self._pause_reading()
            self.ask_turn()
            return
        now_s = shared.now()
        if machine.state is not _READING and not self._reads_on(now_s):
            self._readable_while_muted()
            return
        space = machine.space(now_s)
        if space is None:
            self._pause_reading()
            return
        try:
            count = self._transport.receive_into(space)
        except BlockingIOError:
            self._interest.tell()
            return
        except OSError as error:
            self._stream_failed(error)
            return
        if count == 0:
            self._end_of_stream()
            return
        self.last_used_s = now_s
        if now_s > self.established_from_s:
            shared.established_used_s = now_s
        owed = self._owed
        try:
            requests = machine.received(count, now_s)
        except ProtocolError as error:
            if owed is None:
                self._refuse(ConnectionEvent.REFUSE, error)
            else:
                owed.add(detached(error))
                machine.served(0, now_s, deferred=True)
            return
        if owed is None:
            self._serve(requests, now_s)
        else:
            self._serve_behind(owed, requests, now_s)

    def _reads_on(self, now_s: float) -> bool:
        """Whether further requests may be handled before the pending replies have arrived."""
        return self._owed is not None and self._owed.is_open and self._machine.reads_on(now_s)

    def _readable_while_muted(self) -> None:
        if self._interest.reads_to_write:
            self.on_writable()
        else:
            self._pause_reading()

    def _pause_reading(self) -> None:
        self._interest.read = False
        self._interest.tell()

    def on_writable(self) -> None:
        if self._interest.write:
            self.last_used_s = self._shared.now()
            self._flush()
        else:
            self.on_readable()

    def on_hang_up(self) -> None:
        self._end(ConnectionEvent.LOST)

    def _end_of_stream(self) -> None:
        if self._owed is not None:
            # The end of the stream is read again once all pending replies have been sent.
            self._pause_reading()
            return
        problem = self._machine.cut_off()
        if problem is None:
            self._end(ConnectionEvent.END_OF_STREAM)
        else:
            self._refuse(ConnectionEvent.END_OF_STREAM, problem)

    def _serve(self, requests: list[memoryview], now_s: float) -> None:
        """Handle as many of `requests` as one turn has time for, and send the replies."""
        machine = self._machine
        try:
            handled = self._handle(requests, now_s)
        except ProtocolError as error:
            # The requests before the bad one have been handled, so their replies are sent.
            self._send()
            self._refuse(ConnectionEvent.REFUSE, error)
            return
        except Exception as error:  # noqa: BLE001 - the host logs it; the other connections continue
            self._shared.host.handler_failed(self, error)
            self.close()
            return
        if machine.outgoing:
            self._send()
        if self._owed is not None:
            self._await(self._owed, handled, now_s)
            return
        state = machine.served(handled, now_s)
        if state is not _READING or not self._interest.read or self._transport.holds_bytes:
            self._go_on(state)

    def _handle(self, requests: list[memoryview], now_s: float) -> int:
        """Handle requests and return how many were handled; `_owed` begins with the first deferred reply."""
        shared, outgoing = self._shared, self._machine.outgoing
        assert outgoing is not None
        handler, now, stop_s = shared.handler, shared.now, now_s + shared.connection_turn_s
        handled = unsent = 0
        for frame in requests:
            if handled and now() >= stop_s:
                break
            reply = handler(frame, self)
            handled += 1
            if self.throttle_s:
                self._throttle()
                stop_s = -inf
            if isinstance(reply, PendingReply):
                if not reply.done:
                    self._owed = owed = OwedReplies(reply, shared.limits.connection_turn_requests)
                    if handled < len(requests):
                        handled += self._handle_behind(owed, requests[handled:], stop_s)
                    break
                there: list[Reply | None] = []
                reply.on_complete(there.append)
                if there[0] is None:
                    self.close()
                    break
                reply = there[0]
            for chunk in reply:
                outgoing.append(chunk)
                unsent += len(chunk)
            if unsent >= _OUTPUT_TURN_BYTES:
                unsent = 0
                self._send()
                if outgoing or self._machine.state is _CLOSED:
                    break
        return handled

    def _serve_behind(self, owed: OwedReplies, requests: list[memoryview], now_s: float) -> None:
        """Handle requests that may run before the pending replies arrive; the others wait."""
        try:
            handled = self._handle_behind(owed, requests, now_s + self._shared.connection_turn_s)
        except Exception as error:  # noqa: BLE001 - as in `_serve`
            self._shared.host.handler_failed(self, error)
            self.close()
            return
        if self._machine.served(handled, now_s, deferred=True) is _CLOSED:
            self._cancel_owed()

    def _handle_behind(self, owed: OwedReplies, requests: list[memoryview], stop_s: float) -> int:
        handler, now = self._shared.handler, self._shared.now
        handled = 0
        for frame in requests:
            if not owed.admits(frame) or now() >= stop_s:
                break
            handled += 1
            try:
                owed.add(handler(frame, self))
            except ProtocolError as error:
                owed.add(detached(error))
            if self.throttle_s:
                self._throttle()
                break
        return handled

    def _throttle(self) -> None:
        until_s = self._shared.now() + self.throttle_s
        self.throttle_s = 0.0
        self._machine.throttled_until_s = max(until_s, self._machine.throttled_until_s)

    def _wait_for_throttle_end(self) -> None:
        shared = self._shared
        left_s = max(self._machine.throttled_until_s - shared.now(), 0.0)
        self._forget_throttle_end()
        shared.throttle_ends[self.id] = shared.loop.call_later(left_s, self.ask_turn)

    def _forget_throttle_end(self) -> None:
        timer = self._shared.throttle_ends.pop(self.id, None)
        if timer is not None:
            timer.cancel()

    def _await(self, owed: OwedReplies, handled: int, now_s: float) -> None:
        if self._machine.served(handled, now_s, deferred=True) is _CLOSED:
            self._cancel_owed()
            return
        owed.on_first(self._first_is_there)
        if self._machine.outgoing:
            self._wait_for_socket()

    def _first_is_there(self, reply: Reply | None) -> None:
        """Continue with the first pending reply, which may arrive while a request behind it is being handled."""
        owed = self._owed
        if owed is not None and not owed.has_others and self._machine.state is ConnectionState.AWAITING:
            self._owed = None
            self._give((reply,))
        else:
            # The replies behind it mostly arrive together with it, and then leave in one write.
            self._shared.loop.call_soon(self._give_owed)

    def _give_owed(self) -> None:
        """Send all replies that have arrived, in order, up to the first that is still awaited."""
        owed = self._owed
        if owed is not None:
            replies = owed.taken()
            if owed.awaited is None:
                self._owed = None
            else:
                owed.on_first(self._first_is_there)
            self._give(replies)

    def _give(self, replies: Sequence[Reply | ProtocolError | None]) -> None:
        """Send deferred replies; those that are still pending are in `_owed`."""
        chunks: list[Chunk] = []
        refused: ProtocolError | None = None
        for reply in replies:
            if reply is None:
                self.close()
                return
            if isinstance(reply, ProtocolError):
                refused = reply
            else:
                chunks += reply
        self._machine.replied(chunks, more=self._owed is not None)
        if self.throttle_s:
            self._throttle()
        if refused is not None:
            self._send()
            self._refuse(ConnectionEvent.REFUSE, refused)
        elif not self._interest.write and self._machine.state is not _CLOSED:
            self._flush()

    def _cancel_owed(self) -> None:
        owed, self._owed = self._owed, None
        if owed is not None:
            owed.cancel()

    def _send(self) -> None:
        outgoing = self._machine.outgoing
        if not outgoing:
            return
        try:
            send(self._transport, outgoing)
        except OSError as error:
            self._stream_failed(error)

    def _flush(self) -> None:
        """Send the outgoing bytes, then continue with the next work."""
        machine = self._machine
        self._send()
        if machine.state is _CLOSED:
            return
        if machine.outgoing:
            self._wait_for_socket()
            return
        if self._interest.write:
            self._interest.write = False
            self._interest.tell()
        self._go_on(machine.sent(self._shared.now()))

    def _wait_for_socket(self) -> None:
        self._machine.blocked()
        self._interest.write = True
        self._interest.tell()

    def _go_on(self, state: ConnectionState) -> None:
        if state is _READING:
            if not self._interest.read or self._transport.holds_bytes:
                self._resume_reading()
        elif state is _QUEUED:
            self.ask_turn()
        elif state is _THROTTLED:
            self._wait_for_throttle_end()
        elif state is ConnectionState.AWAITING:
            if not self._interest.read and self._reads_on(self._shared.now()):
                self._resume_reading()
        elif state is _CLOSED:
            if self._transport.fileno() >= 0:
                self._release()
        elif self._machine.outgoing:
            self._wait_for_socket()

    def _resume_reading(self) -> None:
        self._interest.read = True
        self._interest.tell()
        if self._transport.holds_bytes:
            self.ask_turn()

    def ask_turn(self) -> None:
        """Request a turn for the work that had to wait."""
        if not self._turn_asked:
            self._turn_asked = True
            self._shared.turns.add(self)

    def take_turn(self) -> None:
        self._turn_asked = False
        machine = self._machine
        state = machine.state
        if state is _QUEUED:
            now_s = self.last_used_s = self._shared.now()
            try:
                requests = machine.turn(now_s)
            except ProtocolError as error:
                self._refuse(ConnectionEvent.REFUSE, error)
                return
            self._serve(requests, now_s)
        elif state is ConnectionState.SHORT_OF_MEMORY:
            machine.turn(self._shared.now())
            if machine.state is _READING:
                self._resume_reading()
        elif state is _THROTTLED:
            self._forget_throttle_end()
            machine.turn(self._shared.now())
            self._go_on(machine.state)
        elif state is _READING and (self._is_heavy or self._transport.holds_bytes):
            self._is_heavy = False
            self._interest.read = True
            self._interest.tell()
            self.on_readable()

    def _stream_failed(self, error: OSError) -> None:
        if isinstance(error, FileUnreadableError):
            self.refuse("reply-truncated", str(error))
        elif error.errno in _GONE:
            self._end(ConnectionEvent.LOST)
        else:
            self.refuse("socket-error", str(error))

    def push(self, frame: bytes) -> bool:
        """Send an unsolicited whole frame, size field included: between replies, in the order of the calls.

        Returns False if the connection has ended. It also ends if the client leaves more than
        sluicegate.connection.push.max.bytes of such frames unread.
        """
        machine = self._machine
        if machine.state is _CLOSED:
            return False
        if not machine.push(frame):
            self.refuse("push-not-read", "the client has too many unread bytes of frames that are not responses")
            return False
        if machine.state is not ConnectionState.SERVING and not self._interest.write:
            self._flush()
        return machine.state is not _CLOSED

    @property
    def has_unread(self) -> bool:
        """Implement `wire.handler.ServedConnection`: False while the client's own request makes it wait."""
        state = self._machine.state
        if state is not _READING:
            return state in (_QUEUED, _THROTTLED, ConnectionState.SHORT_OF_MEMORY)
        return self._transport.holds_unread

    @property
    def closed(self) -> ClosedObservers:
        """Observers to call when this connection ends."""
        if self._observers is None:
            self._observers = ClosedObservers(self._shared.limits.closed_observers_max)
            if self._machine.state is _CLOSED:
                self._tell_observers(self._observers)
        return self._observers

    def _tell_observers(self, observers: ClosedObservers) -> None:
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
            self._refuse(ConnectionEvent.REFUSE, ProtocolError(kind, text))
        else:
            self._shared.host.request_refused(self, kind, text)

    def _refuse(self, event: ConnectionEvent, problem: ProtocolError) -> None:
        if self._machine.state is not _CLOSED:
            self._shared.host.connection_refused(self, problem.kind, str(problem))
            self._end(event)

    def refuse_overdue(self, now_s: float) -> None:
        """End the connection if its request has made no progress in time."""
        problem = self._machine.overdue(now_s)
        if problem is not None:
            self._refuse(ConnectionEvent.OVERDUE, problem)

    def close(self, *, when_idle: bool = False) -> None:
        """Close the connection at once, or with `when_idle` after current requests are answered; accept no new ones."""
        self._end(ConnectionEvent.FINISH if when_idle else ConnectionEvent.CLOSE)

    def _end(self, event: ConnectionEvent) -> None:
        if self.ended_by is None:
            self.ended_by = event
        if self._machine.end(event):
            self._release()

    def _release(self) -> None:
        self._interest.end()
        self._transport.close()
        self._forget_throttle_end()
        self._cancel_owed()
        if self._observers is not None:
            self._tell_observers(self._observers)
        self._shared.host.connection_closed(self)
