"""Move bytes between the transport and the machine of one connection, and requests to the handler. Shell.

Requests beyond what one turn allows wait in `TimeSlices`. Replies that come later wait in `OwedReplies`.
"""

from collections.abc import Sequence
from math import inf

from broker_runtime.errors import ProtocolError
from broker_runtime.network.connection.connection import Connection, Origin
from broker_runtime.network.connection.connection_states import ConnectionEvent, ConnectionState
from broker_runtime.network.connection.machine import ConnectionMachine
from broker_runtime.network.connection.output import send
from broker_runtime.network.connection.owed_replies import OwedReplies
from broker_runtime.network.connection.shared import Shared
from broker_runtime.network.sockets.interest import Interest
from broker_runtime.network.sockets.transport import Transport
from broker_runtime.wire.reply import Chunk, PendingReply, Reply

_OUTPUT_TURN_BYTES = 256 * 1024
"""Replies are sent when they add up to this many bytes, so that many small requests cannot pile up huge replies."""
_READING, _QUEUED, _THROTTLED, _CLOSED = (
    ConnectionState.READING,
    ConnectionState.QUEUED,
    ConnectionState.THROTTLED,
    ConnectionState.CLOSED,
)


class Channel:
    """Owns `transport`, and the pending replies of its `connection`. The poller and `TimeSlices` call it.

    It reads and handles requests while the machine allows it, sends the replies, and then continues with what waits.
    """

    __slots__ = (
        "_is_heavy",
        "_owed",
        "_turn_asked",
        "connection",
        "interest",
        "machine",
        "shared",
        "transport",
    )

    def __init__(self, transport: Transport, origin: Origin, shared: Shared) -> None:
        self.transport = transport
        self.shared = shared
        self.machine = ConnectionMachine(origin[0], origin[2][0], shared.buffers)
        self.connection = Connection(origin, self.machine, self, shared)
        self._owed: OwedReplies | None = None
        """The awaited reply and those behind it; None if no reply is pending."""
        self.interest = Interest(transport, shared.poller)
        """Reading is switched off only when bytes arrive while the client is muted: mostly none do."""
        self._turn_asked = False
        self._is_heavy = False
        """The last request held the event loop for long: the connection reads again only in its next turn."""

    def __str__(self) -> str:
        return str(self.connection)

    def start(self) -> None:
        """Read what the client has already sent, then wait for more."""
        self.on_readable()
        if self.machine.state is not _CLOSED:
            self.interest.begin(self)

    def on_readable(self) -> None:
        shared, machine, connection = self.shared, self.machine, self.connection
        if self._is_heavy and machine.state is _READING:
            self.interest.pause_reading()
            self.ask_turn()
            return
        now_s = shared.now()
        owed = self._owed
        if machine.state is not _READING and (owed is None or not owed.reads_on(now_s)):
            if self.interest.reads_to_write:
                self.on_writable()
            else:
                self.interest.pause_reading()
            return
        space = machine.space(now_s)
        if space is None:
            self.interest.pause_reading()
            return
        try:
            count = self.transport.receive_into(space)
        except BlockingIOError:
            self.interest.update()
            return
        except OSError as error:
            connection.stream_failed(error)
            return
        if count == 0:
            self._end_of_stream()
            return
        connection.last_used_s = now_s
        if now_s > connection.established_from_s:
            shared.established_used_s = now_s
        try:
            requests = machine.received(count, now_s)
        except ProtocolError as error:
            if owed is None:
                connection.end(ConnectionEvent.REFUSE, error)
            else:
                owed.refuse(error)
                machine.served(0, now_s, deferred=True)
            return
        if owed is None:
            self._serve(requests, now_s)
        else:
            self._serve_behind(owed, requests, now_s)

    def _end_of_stream(self) -> None:
        if self._owed is None:
            self.connection.end(ConnectionEvent.END_OF_STREAM, self.machine.cut_off())
        else:
            # The end of the stream is read again once all pending replies have been sent.
            self.interest.pause_reading()

    def on_writable(self) -> None:
        if self.interest.write:
            self.connection.last_used_s = self.shared.now()
            self.flush()
        else:
            self.on_readable()

    def on_hang_up(self) -> None:
        self.connection.end(ConnectionEvent.LOST)

    def was_heavy(self) -> None:
        """Implement `poller.Pollable` and `time_slices.QueuedConnection`."""
        self._is_heavy = True

    def _serve(self, requests: list[memoryview], now_s: float) -> None:
        """Handle as many of `requests` as one turn has time for, and send the replies."""
        machine = self.machine
        try:
            handled = self._handle(requests, now_s)
        except ProtocolError as error:
            # The requests before the bad one have been handled, so their replies are sent.
            self._send()
            self.connection.end(ConnectionEvent.REFUSE, error)
            return
        except Exception as error:  # noqa: BLE001 - the host logs it; the other connections continue
            self.shared.host.handler_failed(self.connection, error)
            self.connection.close()
            return
        if machine.outgoing:
            self._send()
        owed = self._owed
        if owed is None:
            state = machine.served(handled, now_s)
            if state is not _READING or not self.interest.read or self.transport.holds_bytes:
                self._go_on(state)
        elif machine.served(handled, now_s, deferred=True) is _CLOSED:
            self._owed = None
            owed.cancel()
        else:
            owed.give_soon()
            if machine.outgoing:
                machine.blocked()
                self.interest.wait_to_write()

    def _handle(self, requests: list[memoryview], now_s: float) -> int:
        """Handle requests and return how many were handled; `_owed` begins with the first deferred reply."""
        shared, connection, outgoing = self.shared, self.connection, self.machine.outgoing
        assert outgoing is not None
        now, stop_s = shared.now, now_s + shared.connection_turn_s
        handled = unsent = 0
        for frame in requests:
            if handled and now() >= stop_s:
                break
            # The handler changes when the client has authenticated.
            reply = connection.handler(frame, connection)
            handled += 1
            if connection.throttle_s:
                self.throttle()
                stop_s = -inf
            if isinstance(reply, PendingReply):
                if not reply.done:
                    self._owed = owed = OwedReplies(reply, self)
                    if handled < len(requests):
                        handled += owed.handle(requests[handled:], stop_s)
                    break
                there: list[Reply | None] = []
                reply.on_complete(there.append)
                if there[0] is None:
                    connection.close()
                    break
                reply = there[0]
            for chunk in reply:
                outgoing.append(chunk)
                unsent += len(chunk)
            if unsent >= _OUTPUT_TURN_BYTES:
                unsent = 0
                self._send()
                if outgoing or self.machine.state is _CLOSED:
                    break
        return handled

    def _serve_behind(self, owed: OwedReplies, requests: list[memoryview], now_s: float) -> None:
        """Handle requests that may run before the pending replies arrive; the others wait."""
        try:
            handled = owed.handle(requests, now_s + self.shared.connection_turn_s)
        except Exception as error:  # noqa: BLE001 - as in `_serve`
            self.shared.host.handler_failed(self.connection, error)
            self.connection.close()
            return
        if self.machine.served(handled, now_s, deferred=True) is _CLOSED:
            self._owed = None
            owed.cancel()

    def throttle(self) -> None:
        """Handle no further requests for the time that a handler has set in `throttle_s`."""
        until_s = self.shared.now() + self.connection.throttle_s
        self.connection.throttle_s = 0.0
        self.machine.throttled_until_s = max(until_s, self.machine.throttled_until_s)

    def give(self, replies: Sequence[Reply | ProtocolError | None], *, more: bool) -> None:
        """Send deferred replies. If not `more`, no other is pending."""
        if not more:
            self._owed = None
        machine, connection = self.machine, self.connection
        chunks: list[Chunk] = []
        refused: ProtocolError | None = None
        for reply in replies:
            if reply is None:
                connection.close()
                return
            if isinstance(reply, ProtocolError):
                refused = reply
            else:
                chunks += reply
        machine.replied(chunks, more=more)
        if connection.throttle_s:
            self.throttle()
        if refused is not None:
            self._send()
            connection.end(ConnectionEvent.REFUSE, refused)
        elif not self.interest.write and machine.state is not _CLOSED:
            self.flush()

    def _send(self) -> None:
        outgoing = self.machine.outgoing
        if not outgoing:
            return
        try:
            send(self.transport, outgoing)
        except OSError as error:
            self.connection.stream_failed(error)

    def flush(self) -> None:
        """Send the outgoing bytes, then continue with the next work."""
        machine = self.machine
        self._send()
        if machine.state is _CLOSED:
            return
        if machine.outgoing:
            machine.blocked()
            self.interest.wait_to_write()
            return
        if self.interest.write:
            self.interest.end_writing()
        self._go_on(machine.sent(self.shared.now()))

    def _go_on(self, state: ConnectionState) -> None:
        if state is _READING:
            if not self.interest.read or self.transport.holds_bytes:
                self._resume_reading()
        elif state is _QUEUED:
            self.ask_turn()
        elif state is _THROTTLED:
            left_s = max(self.machine.throttled_until_s - self.shared.now(), 0.0)
            self.shared.throttle_ends.set(self.connection.id, left_s, self.ask_turn)
        elif state is ConnectionState.AWAITING:
            owed = self._owed
            if not self.interest.read and owed is not None and owed.reads_on(self.shared.now()):
                self._resume_reading()
        elif state is _CLOSED:
            self.connection.release()
        elif self.machine.outgoing:
            self.machine.blocked()
            self.interest.wait_to_write()

    def _resume_reading(self) -> None:
        self.interest.resume_reading()
        if self.transport.holds_bytes:
            self.ask_turn()

    def ask_turn(self) -> None:
        """Request a turn for the work that had to wait."""
        if not self._turn_asked:
            self._turn_asked = True
            self.shared.turns.add(self)

    def take_turn(self) -> None:
        self._turn_asked = False
        machine = self.machine
        state = machine.state
        if state is _QUEUED:
            now_s = self.connection.last_used_s = self.shared.now()
            try:
                requests = machine.turn(now_s)
            except ProtocolError as error:
                self.connection.end(ConnectionEvent.REFUSE, error)
                return
            self._serve(requests, now_s)
        elif state is ConnectionState.SHORT_OF_MEMORY:
            machine.turn(self.shared.now())
            if machine.state is _READING:
                self._resume_reading()
        elif state is _THROTTLED:
            self.shared.throttle_ends.forget(self.connection.id)
            machine.turn(self.shared.now())
            self._go_on(machine.state)
        elif state is _READING and (self._is_heavy or self.transport.holds_bytes):
            self._is_heavy = False
            self.interest.resume_reading()
            self.on_readable()

    def stop(self) -> None:
        """Close the transport, and cancel everything that waits for it: the connection has ended."""
        self.interest.end()
        self.transport.close()
        self.shared.throttle_ends.forget(self.connection.id)
        owed, self._owed = self._owed, None
        if owed is not None:
            owed.cancel()
