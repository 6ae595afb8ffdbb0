"""One connection without its socket: bytes in, commands out. Pure; times are given.

The machine decides everything that happens to a connection: which requests are handled in which time slice, when the
client is read from, when it is throttled, and in which order replies leave. The shell (`Channel`) has the socket and
the handler. It reports events, and each returns the next `Command`:

- A request arrives alone, as most do: `space`, `received` -> HANDLE, `answered` -> SEND, `sent` -> READ.
- Many arrive: HANDLE follows HANDLE until the requests or the time of the `TimeSlice` are used up, then SEND. The rest
  is kept in `incoming`. After QUEUE, the shell calls `begin_slice`.
- A reply comes later: it begins `OwedReplies`. AWAIT leads to `collect`. Until then, only requests that it admits
  are handled, and their replies follow it.
- The socket takes only a part: `blocked` is True until it has taken all of `outgoing`. Nothing is read meanwhile.
- A handler throttles its client (`throttle`): after the replies, nothing is read or handled until `throttled_until_s`
  (KIP-219).

`state` determines which events are allowed; `connection_states` is the table. An event that is not allowed is a bug in
the broker, and raises UnknownEventError.
"""

from math import inf

from broker_runtime.errors import ProtocolError, detached
from broker_runtime.network.connection.commands import Command
from broker_runtime.network.connection.connection_states import AFTER, ConnectionEvent, ConnectionState, after, unknown
from broker_runtime.network.connection.owed_replies import OwedReplies
from broker_runtime.network.connection.received.frames import SIZE_BYTES, read_size
from broker_runtime.network.connection.received.incoming import Incoming, SharedBuffers, TimeSlice
from broker_runtime.wire.reply import Chunk, PendingReply, Reply

_OUTPUT_SLICE_BYTES = 256 * 1024
"""Replies are sent when they add up to this many bytes, so that many small requests cannot pile up huge replies."""
_NO_REQUEST = memoryview(b"")
_TRUNCATED = ProtocolError("frame-truncated", "the client disconnected in the middle of a request")

# A name of a module is found faster than the member of an enumeration.
_READING, _AWAITING, _CLOSED = ConnectionState.READING, ConnectionState.AWAITING, ConnectionState.CLOSED
_AFTER_BYTES, _AFTER_SERVED = AFTER[ConnectionEvent.BYTES], AFTER[ConnectionEvent.SERVED]
_AFTER_DEFERRED = AFTER[ConnectionEvent.DEFERRED]
_HANDLE, _SEND, _READ = Command.HANDLE, Command.SEND, Command.READ


class ConnectionMachine:
    """Decides what one connection does next, by its state.

    `holder` identifies the connection, and `address` its client, for the memory of requests.
    """

    __slots__ = (
        "_pushed_bytes",
        "_slice",
        "blocked",
        "incoming",
        "is_heavy",
        "outgoing",
        "owed",
        "problem",
        "request",
        "state",
        "throttled_until_s",
    )

    def __init__(self, holder: int, address: str, buffers: SharedBuffers) -> None:
        self.state = _READING
        self.incoming = Incoming(holder, address, buffers)
        self.request = _NO_REQUEST
        """The request to handle; empty outside of a time slice."""
        self.outgoing: list[Chunk] | None = None
        """Chunks that the socket has still to take: whole replies in order, and unsolicited frames between them.

        None while there is nothing to send and no request to answer.
        """
        self.blocked = False
        """Whether the socket has to take more of `outgoing` before anything else happens."""
        self.problem: ProtocolError | None = None
        """Why the connection is refused."""
        self.is_heavy = False
        """The last request held the event loop for long: the connection reads again only in its next time slice."""
        self.throttled_until_s = -inf
        self._slice: TimeSlice | None = None
        """The time slice under way; None if it has one request at most."""
        self.owed: OwedReplies | None = None
        """The awaited reply and those behind it; None if no reply is pending."""
        self._pushed_bytes = 0
        """Bytes of unsolicited frames since everything was last sent."""

    def space(self, now_s: float) -> memoryview | None:
        """Return the buffer for the next bytes, valid until `received`; None for a muted client: call `go_on` then."""
        if self.state is _READING:
            if self.is_heavy:
                return None
        elif not self._reads_behind(now_s):
            return None
        incoming = self.incoming
        frame = incoming.frame
        if frame is None:
            buffers = incoming.buffers
            return buffers.scratch if buffers.memory.ample else buffers.short_scratch
        space = incoming.space(frame, now_s, may_wait=self.owed is None)
        if space is None and self.owed is None:
            self.state = after(self.state, ConnectionEvent.NO_MEMORY)
        return space

    def _reads_behind(self, now_s: float) -> bool:
        """Whether to read while a reply is pending: it admits other requests, and no received one waits for it."""
        owed = self.owed
        if owed is None or self.state is not _AWAITING or self.outgoing or now_s < self.throttled_until_s:
            return False
        if not owed.is_open:
            return False
        incoming = self.incoming
        frame = incoming.frame
        return frame is None or (not frame.complete and incoming.room(frame, now_s, may_wait=False) > 0)

    def received(self, count: int, now_s: float) -> Command:
        """Process `count` bytes in `space`; 0: the client has ended its side."""
        if count == 0:
            if self.owed is not None:
                # The end of the stream is read again once all pending replies have been sent.
                return Command.PAUSE
            self.problem = None if self.incoming.frame is None else _TRUNCATED
            return Command.END_OF_STREAM
        state = _AFTER_BYTES[self.state]
        if state is None:
            raise unknown(self.state, ConnectionEvent.BYTES)
        self.state = state
        self.outgoing = []
        incoming = self.incoming
        frame = incoming.frame
        if frame is None:
            data = incoming.buffers.scratch[:count]
            if count > SIZE_BYTES and self.owed is None:
                (size,) = read_size(data)
                if size == count - SIZE_BYTES and size <= incoming.max_request_bytes:
                    # The usual case: exactly one whole request has arrived.
                    self.request = data[SIZE_BYTES:]
                    return _HANDLE
            return self._handle_requests(data, now_s)
        known = incoming.with_frame(frame, count, now_s)
        return self._end_slice(now_s) if known is None else self._handle_requests(known, now_s)

    def _handle_requests(self, data: memoryview, now_s: float) -> Command:
        try:
            self._slice = self.incoming.requests_in(data, now_s)
        except ProtocolError as error:
            return self.refused(error, now_s)
        return self._next(now_s)

    def _next(self, now_s: float) -> Command:
        """Handle the next request of the time slice, or end the time slice."""
        time_slice, owed = self._slice, self.owed
        request = None if time_slice is None else time_slice.next(now_s)
        if request is None or (owed is not None and not owed.admits(request)):
            return self._end_slice(now_s)
        self.request = request
        return _HANDLE

    def answered(self, reply: Reply | PendingReply, now_s: float) -> Command:
        """Accept the handler's reply to the connection's `request`."""
        outgoing, time_slice = self.outgoing, self._slice
        if time_slice is not None:
            time_slice.handled += 1
        if isinstance(reply, PendingReply) or self.owed is not None or outgoing is None:
            return self._not_sent_yet(reply, now_s)
        outgoing += reply
        if time_slice is None:
            return self._end_slice(now_s)
        unsent = time_slice.unsent
        for chunk in reply:
            unsent += len(chunk)
        time_slice.unsent = unsent
        if unsent >= _OUTPUT_SLICE_BYTES:
            return _SEND
        # As `TimeSlice.next`, without a call: clients that pipeline come here with each request.
        requests, handled = time_slice.requests, time_slice.handled
        if handled == len(requests) or now_s >= time_slice.stop_s:
            return self._end_slice(now_s)
        self.request = requests[handled]
        return _HANDLE

    def _not_sent_yet(self, reply: Reply | PendingReply, now_s: float) -> Command:
        """Take a reply that comes later, or after one that does, or to a connection that its handler has closed."""
        if self.outgoing is None:
            if isinstance(reply, PendingReply):
                reply.cancel()
            return Command.WAIT
        if self.owed is not None:
            self.owed.add(reply)
        elif isinstance(reply, PendingReply) and not reply.done:
            self.owed = OwedReplies(reply, self.incoming.buffers.limits.connection_turn_requests)
        else:
            existing = reply.existing if isinstance(reply, PendingReply) else reply
            if existing is None:
                return Command.CLOSE
            self.outgoing += existing
            if self._slice is not None:
                self._slice.unsent += sum(map(len, existing))
        return self._next(now_s)

    def refused(self, error: ProtocolError, now_s: float) -> Command:
        """Refuse the connection because of the bad `request`, after the replies to earlier requests."""
        if self.owed is not None:
            self.owed.refuse(error)
            if self._slice is not None:
                self._slice.handled += 1
            return self._end_slice(now_s)
        self.problem = detached(error)
        return _SEND if self.outgoing else Command.REFUSE

    def throttle(self, until_s: float) -> None:
        """Record that a handler throttles its client: no further request is handled, not even in this time slice."""
        self.throttled_until_s = max(until_s, self.throttled_until_s)
        if self._slice is not None:
            self._slice.stop_s = -inf

    def _end_slice(self, now_s: float) -> Command:
        """Keep the requests that the time slice has not handled, and continue with the replies to the others."""
        owed, state = self.owed, self.state
        ended = _AFTER_SERVED[state] if owed is None else _AFTER_DEFERRED[state]
        if ended is None:
            raise unknown(state, ConnectionEvent.SERVED)
        self.state = ended
        self.request = _NO_REQUEST
        incoming, time_slice = self.incoming, self._slice
        if time_slice is not None:
            self._slice = None
            incoming.keep_rest(time_slice, now_s)
        if owed is None:
            if incoming.is_held:
                incoming.release()
            return _SEND if self.outgoing and not self.blocked else self.go_on(now_s)
        incoming.stop_deadline()
        if owed.is_awaited:
            return self.go_on(now_s)
        owed.is_awaited = True
        return Command.AWAIT

    def sent(self, now_s: float, count: int = 0) -> Command:
        """Record that the socket took `count` bytes: `outgoing` has only the rest."""
        if self.problem is not None:
            return Command.REFUSE
        incoming, time_slice = self.incoming, self._slice
        if self.outgoing:
            if self.blocked:
                incoming.buffers.answers.took(incoming.holder, count, now_s)
            else:
                self.blocked = True
                incoming.buffers.answers.hold(incoming.holder, self.outgoing, now_s)
            incoming.stop_deadline()
            return Command.WAIT if time_slice is None else self._end_slice(now_s)
        if self.blocked:
            self.blocked = False
            incoming.buffers.answers.sent(incoming.holder)
        self._pushed_bytes = 0
        if time_slice is not None:
            time_slice.unsent = 0
            return self._next(now_s)
        self.outgoing = None
        if self.owed is not None:
            return self.go_on(now_s)
        if now_s < self.throttled_until_s:
            event = ConnectionEvent.SENT_THROTTLED
        elif incoming.frame is None or not incoming.frame.complete:
            event = ConnectionEvent.SENT
        else:
            event = ConnectionEvent.SENT_WITH_MORE
        state = self.state = after(self.state, event)
        if state is _CLOSED:
            incoming.forget()
            return Command.CLOSE
        if state is ConnectionState.THROTTLED:
            return Command.WAKE
        if event is ConnectionEvent.SENT:
            incoming.resume_deadline(now_s)
        return _READ if state is _READING else self.go_on(now_s)

    def go_on(self, now_s: float) -> Command:
        """Continue with the next work of the connection, if there is any."""
        if self.request is not _NO_REQUEST:
            # The end of the time slice sends everything.
            return Command.WAIT
        if self.outgoing:
            return Command.WAIT if self.blocked else _SEND
        state = self.state
        if state is _READING:
            return Command.QUEUE if self.is_heavy else _READ
        if state is _AWAITING:
            return _READ if self._reads_behind(now_s) else Command.WAIT
        if state is ConnectionState.QUEUED:
            return Command.QUEUE
        if state is ConnectionState.SENDING or (state is ConnectionState.ENDING and self.owed is None):
            return self.sent(now_s)
        return Command.WAIT

    def collect(self, now_s: float, *, at_once: bool) -> Command:
        """Send all replies that exist, in order, up to the first pending one.

        `at_once`: the first reply has just come into existence, perhaps while a request behind it is being handled.
        """
        owed = self.owed
        if owed is None:
            return Command.WAIT
        if at_once and (len(owed) > 1 or self.state is not _AWAITING):
            # The replies behind it mostly arrive together with it, and then leave in one write.
            return Command.COLLECT
        chunks: list[Chunk] = []
        for reply in owed.taken():
            if reply is None:
                return Command.CLOSE
            if isinstance(reply, ProtocolError):
                self.problem = reply
            else:
                chunks += reply
        if owed:
            self.state = after(self.state, ConnectionEvent.REPLY_WITH_MORE)
        else:
            self.owed = None
            self.state = after(self.state, ConnectionEvent.REPLY)
            self.incoming.release()
        if self.outgoing is None:
            self.outgoing = []
        self.outgoing += chunks
        if self.blocked:
            self.incoming.buffers.answers.hold_more(self.incoming.holder, chunks)
        if self.problem is not None:
            return _SEND if self.outgoing else Command.REFUSE
        if not owed:
            return self.go_on(now_s)
        owed.is_awaited = True
        return Command.AWAIT

    def push(self, frame: bytes) -> bool:
        """Append an unsolicited frame; then call `go_on`. Return False if too many bytes of such frames wait already.

        One frame is accepted whatever its size: a client that reads is not disconnected for a single large frame.
        """
        waiting, self._pushed_bytes = self._pushed_bytes, self._pushed_bytes + len(frame)
        if waiting and self._pushed_bytes > self.incoming.buffers.limits.push_max_bytes:
            return False
        self.state = after(self.state, ConnectionEvent.PUSH)
        if self.state is not _CLOSED:
            if self.outgoing is None:
                self.outgoing = []
            self.outgoing.append(frame)
            if self.blocked:
                self.incoming.buffers.answers.hold_more(self.incoming.holder, (frame,))
        return True

    def begin_slice(self, now_s: float) -> Command:
        """Continue in the connection's next time slice, or after a wait for memory or for the throttle's end."""
        state, incoming = self.state, self.incoming
        frame = incoming.frame
        if state is ConnectionState.QUEUED and frame is not None:
            self.state = after(state, ConnectionEvent.SLICE)
            self.outgoing = []
            return self._handle_requests(frame.arrived, now_s)
        if state is _READING:
            self.is_heavy = False
            return Command.RECEIVE
        if state is ConnectionState.SHORT_OF_MEMORY and frame is not None:
            if not incoming.room(frame, now_s, may_wait=True):
                return Command.WAIT
            self.state = after(state, ConnectionEvent.MEMORY)
            incoming.restart_deadline(now_s)
            return _READ
        if state is ConnectionState.THROTTLED:
            if now_s < self.throttled_until_s:
                return Command.WAKE
            if frame is not None and frame.complete:
                self.state = after(state, ConnectionEvent.UNTHROTTLED_WITH_MORE)
            else:
                self.state = after(state, ConnectionEvent.UNTHROTTLED)
                incoming.restart_deadline(now_s)
            return self.go_on(now_s)
        return Command.WAIT

    def overdue(self, now_s: float) -> ProtocolError | None:
        """Return why to refuse the connection, if its request has made no progress in time; else None."""
        return self.incoming.overdue(now_s) if self.state is _READING else None

    def end(self, event: ConnectionEvent) -> None:
        """End the connection, or begin to, because of `event`.

        If the event closes the connection, its `owed` replies are to be cancelled.
        """
        self.state = after(self.state, event)
        if self.state is _CLOSED:
            self._slice = None
            self.request = _NO_REQUEST
            self.outgoing = None
            self.incoming.buffers.answers.sent(self.incoming.holder)
            self.incoming.forget()
            self.incoming.release()
