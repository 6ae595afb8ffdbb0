"""One connection without its socket: bytes in, requests and bytes out, strictly in order. Pure; times are given.

The shell (`Channel`) asks where bytes may go (`space`), reports how many arrived (`received`) and gets the requests
that may be handled now. It appends their replies to `outgoing`. Then it reports how many requests it handled
(`served`), and whether the socket took the replies (`sent`, `blocked`). `state` determines what may happen next;
`connection_states` is the table.

Reads go into a scratch buffer that all connections share, and requests are handled there without a copy. Only the rest
at the end of a turn is copied.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf

from broker_runtime.errors import ProtocolError
from broker_runtime.network.connection.connection_states import AFTER, ConnectionEvent, ConnectionState, unknown
from broker_runtime.network.connection.frames import SIZE_BYTES, UnfinishedFrame, check_size, frame_length, read_size
from broker_runtime.network.connection.request_memory import RequestMemory
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.wire.reply import Chunk

SCRATCH_BYTES = 256 * 1024
_DIRECT_BYTES = 16 * 1024
"""A frame that misses at least this many bytes is received into its own buffer instead of the scratch."""
_SHORT_READ_BYTES = 16 * 1024
"""Bytes read at once while memory for unfinished requests is short: more would have to be kept."""
_PROGRESS_BYTES = 16 * 1024
"""A request that gains this many bytes within the timeout makes progress; a byte now and then does not count."""

_READING = ConnectionState.READING
_AFTER_BYTES, _AFTER_SERVED = AFTER[ConnectionEvent.BYTES], AFTER[ConnectionEvent.SERVED]
_NO_REQUESTS: Sequence[memoryview] = ()


class SharedBuffers:
    """Buffers that the machines of one event loop share: the scratch, and the memory for unfinished requests.

    `freed` is called after memory was released.
    """

    __slots__ = ("freed", "limits", "memory", "scratch", "short_scratch")

    def __init__(self, limits: NetworkLimits, freed: Callable[[], None]) -> None:
        self.freed = freed
        self.limits = limits
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.short_scratch = self.scratch[:_SHORT_READ_BYTES]
        self.memory: RequestMemory[int] = RequestMemory(
            limits.max_buffered_bytes, limits.max_request_bytes, limits.frame_receive_timeout_s
        )


class _HeldFrame:
    """The part of a machine that keeps a frame for a handler that reads it after its call."""

    __slots__ = ("_held", "_holds")

    _holds: bool
    _held: int
    _holder: int
    _address: str
    _buffers: SharedBuffers

    def hold(self, frame: memoryview) -> memoryview:
        """Return the current request's bytes, valid until `release`.

        A frame larger than the shared buffer has a buffer of its own, whose memory counts until then.
        """
        if len(frame) <= SCRATCH_BYTES:
            return memoryview(bytes(frame))
        self._holds = True
        return frame

    def release(self) -> None:
        """Release the kept frame: the handler no longer reads it."""
        self._holds = False
        held, self._held = self._held, 0
        if held:
            self._buffers.memory.give_back(self._holder, self._address, held)
            self._buffers.freed()


class ConnectionMachine(_HeldFrame):
    """`holder` identifies the connection, and `address` its client, for the accounting of request memory.

    `outgoing` is what the socket has still to take: whole replies in the order of their requests, and unsolicited
    frames between them. It is None while there is nothing to send and no request to answer. Until `throttled_until_s`,
    which the shell sets, no further requests are handled (KIP-219).

    Raises UnknownEventError for an event that is not allowed in the state, and ProtocolError for bytes that are not a
    request. The connection has to end with both.
    """

    __slots__ = (
        "_address",
        "_buffers",
        "_data",
        "_deadline_s",
        "_frame",
        "_holder",
        "_owing",
        "_pushed_bytes",
        "_requests",
        "_taken",
        "max_request_bytes",
        "outgoing",
        "state",
        "throttled_until_s",
    )

    def __init__(self, holder: int, address: str, buffers: SharedBuffers) -> None:
        self.state = _READING
        self.outgoing: list[Chunk] | None = None
        self.max_request_bytes = buffers.limits.max_request_bytes
        """A client that is not authenticated may send less than others."""
        self.throttled_until_s = -inf
        self._holder = holder
        self._address = address
        self._buffers = buffers
        self._frame: UnfinishedFrame | None = None
        self._deadline_s = inf
        """Deadline for progress of the unfinished request; infinite while the client is muted."""
        self._owing = False
        """Whether a reply is still pending."""
        self._holds = False
        """Whether the handler reads its frame after its call."""
        self._held = 0
        """Bytes of such a frame. They count as request memory, though none of it is unfinished any more."""
        self._pushed_bytes = 0
        """Bytes of unsolicited frames since everything was last sent."""
        self._data: memoryview | None = None
        """The data being handled, if a rest may remain; its `_requests` end at `_taken`."""
        self._requests = _NO_REQUESTS
        self._taken = 0

    def _transition(self, event: ConnectionEvent) -> None:
        state = AFTER[event][self.state]
        if state is None:
            raise unknown(self.state, event)
        self.state = state

    def space(self, now_s: float) -> memoryview | None:
        """Return where the next bytes go, valid until `received`; None while there is no memory for them."""
        buffers = self._buffers
        frame = self._frame
        if frame is None:
            return buffers.scratch if buffers.memory.ample else buffers.short_scratch
        room = self._room(frame, now_s)
        if not room:
            if not self._owing:
                self._transition(ConnectionEvent.NO_MEMORY)
            self._deadline_s = inf
            return None
        if _has_own_buffer(frame):
            return frame.free_space()[:room]
        filled = frame.filled
        buffers.scratch[:filled] = memoryview(frame.buffer)[:filled]
        return buffers.scratch[filled : filled + max(room, _SHORT_READ_BYTES)]

    def reads_on(self, now_s: float) -> bool:
        """Whether to read while a reply is pending: no received request waits for it."""
        frame = self._frame
        is_free = frame is None or not frame.complete
        return (
            self.state is ConnectionState.AWAITING and is_free and not self.outgoing and now_s >= self.throttled_until_s
        )

    def received(self, count: int, now_s: float) -> list[memoryview]:
        """Process `count` bytes in `space`. Return the requests to handle now, which are valid until `served`."""
        state = _AFTER_BYTES[self.state]
        if state is None:
            raise unknown(self.state, ConnectionEvent.BYTES)
        self.state = state
        frame = self._frame
        if frame is None:
            return self._requests_in(self._buffers.scratch[:count])
        if not _has_own_buffer(frame):
            return self._requests_in(self._buffers.scratch[: frame.filled + count])
        frame.filled += count
        self._buffers.memory.take(self._holder, self._address, count)
        if frame.missing == 0:
            return self._requests_in(memoryview(frame.buffer))
        if frame.filled - frame.noted >= _PROGRESS_BYTES:
            self._restart_deadline(frame, now_s)
        self.outgoing = []
        return []

    def turn(self, now_s: float) -> list[memoryview]:
        """Continue after a wait for a turn, for memory, or for the end of the throttle time."""
        frame = self._frame
        if self.state is ConnectionState.THROTTLED:
            if now_s >= self.throttled_until_s:
                self._transition(
                    ConnectionEvent.UNTHROTTLED_WITH_MORE
                    if frame is not None and frame.complete
                    else ConnectionEvent.UNTHROTTLED
                )
                if frame is not None and not frame.complete:
                    self._restart_deadline(frame, now_s)
            return []
        assert frame is not None, "only what has arrived waits"
        if self.state is ConnectionState.SHORT_OF_MEMORY:
            if self._room(frame, now_s):
                self._transition(ConnectionEvent.MEMORY)
                self._restart_deadline(frame, now_s)
            return []
        self._transition(ConnectionEvent.TURN)
        return self._requests_in(frame.arrived)

    def _requests_in(self, data: memoryview) -> list[memoryview]:
        """Return as many requests as one turn allows. A forbidden size is refused after the requests before it."""
        limits = self._buffers.limits
        max_bytes, left = self.max_request_bytes, limits.connection_turn_requests
        self.outgoing = []
        position, length = 0, len(data)
        if length > SIZE_BYTES and self._frame is None and not self._owing:
            (size,) = read_size(data)
            if size == length - SIZE_BYTES and size <= max_bytes:
                # The usual case: exactly one whole request has arrived.
                return [data[SIZE_BYTES:]]
        requests: list[memoryview] = []
        while length - position >= SIZE_BYTES and left:
            (size,) = read_size(data, position)
            if not 0 <= size <= max_bytes:
                if not requests:
                    check_size(size, max_bytes)
                break
            end = position + SIZE_BYTES + size
            if end > length:
                break
            requests.append(data[position + SIZE_BYTES : end])
            position = end
            left -= 1
        if position < length or len(requests) > 1 or self._owing or self._frame is not None:
            self._data, self._requests, self._taken = data, requests, position
        return requests

    def served(self, handled: int, now_s: float, *, deferred: bool = False) -> ConnectionState:
        """Record that the first `handled` requests were handled; what `outgoing` still contains waits for the socket.

        `deferred`: the replies to the last of them come later. Returns the new state.
        """
        state = self.state
        after = AFTER[ConnectionEvent.DEFERRED][state] if deferred else _AFTER_SERVED[state]
        if after is None:
            raise unknown(state, ConnectionEvent.DEFERRED if deferred else ConnectionEvent.SERVED)
        self.state = after
        if self._data is not None:
            self._keep_rest(self._data, handled, now_s)
        if after is ConnectionState.CLOSED:
            self.outgoing = None
            return after
        if self._holds and not deferred:
            self.release()
        if deferred:
            self._owing = True
            self._deadline_s = inf
        elif not self.outgoing:
            return self.sent(now_s)
        return after

    def _keep_rest(self, data: memoryview, handled: int, now_s: float) -> None:
        requests, position = self._requests, self._taken
        self._data, self._requests = None, _NO_REQUESTS
        if self.state is ConnectionState.CLOSED:
            return
        for request in requests[handled:]:
            position -= SIZE_BYTES + len(request)
        if position < len(data):
            self._keep(data[position:], position, now_s)
        else:
            self._forget_frame()

    def replied(self, reply: Iterable[Chunk], *, more: bool = False) -> None:
        """Append a deferred reply; `more`: others are still pending."""
        self._transition(ConnectionEvent.REPLY_WITH_MORE if more else ConnectionEvent.REPLY)
        self._owing = more
        if not more:
            self.release()
        if self.state is not ConnectionState.CLOSED:
            if self.outgoing is None:
                self.outgoing = []
            self.outgoing.extend(reply)

    def push(self, frame: bytes) -> bool:
        """Append an unsolicited frame. Returns False if too many bytes of such frames wait already.

        One frame is accepted whatever its size: a client that reads is not disconnected for a single large frame.
        """
        waiting, self._pushed_bytes = self._pushed_bytes, self._pushed_bytes + len(frame)
        if waiting and self._pushed_bytes > self._buffers.limits.push_max_bytes:
            return False
        self._transition(ConnectionEvent.PUSH)
        if self.state is not ConnectionState.CLOSED:
            if self.outgoing is None:
                self.outgoing = []
            self.outgoing.append(frame)
        return True

    def sent(self, now_s: float) -> ConnectionState:
        """Record that the socket has taken all of `outgoing`, and return the new state."""
        self.outgoing = None
        self._pushed_bytes = 0
        if self._owing:
            return self.state
        frame = self._frame
        if now_s < self.throttled_until_s:
            event = ConnectionEvent.SENT_THROTTLED
        else:
            event = ConnectionEvent.SENT_WITH_MORE if frame is not None and frame.complete else ConnectionEvent.SENT
        after = AFTER[event][self.state]
        if after is None:
            raise unknown(self.state, event)
        self.state = after
        if frame is not None:
            if after is ConnectionState.CLOSED:
                self._forget_frame()
            elif event is ConnectionEvent.SENT and self._deadline_s == inf:
                self._restart_deadline(frame, now_s)
        return after

    def blocked(self) -> None:
        """Record that the socket takes no more of `outgoing` for now."""
        self._deadline_s = inf

    def _keep(self, rest: memoryview, handled: int, now_s: float) -> None:
        """Copy the rest out of the shared buffer: incomplete requests, or complete ones that may not be handled yet."""
        needed = frame_length(rest, self.max_request_bytes)
        frame = self._frame
        is_new = handled > 0 or frame is None
        if frame is not None and frame.complete and 0 < needed <= len(rest):
            # `rest` is in this buffer: it is kept until its last complete request has been handled.
            frame.skip(handled, needed)
            return
        self._forget_frame()
        frame = self._frame = UnfinishedFrame(rest, needed)
        self._buffers.memory.take(self._holder, self._address, frame.filled)
        if frame.complete:
            self._deadline_s = inf
        elif is_new:
            self._restart_deadline(frame, now_s)

    def _forget_frame(self) -> None:
        frame = self._frame
        if frame is not None:
            self._frame = None
            if self._holds:
                self._held += frame.filled
                return
            self._buffers.memory.give_back(self._holder, self._address, frame.filled)
            self._buffers.freed()

    def _restart_deadline(self, frame: UnfinishedFrame, now_s: float) -> None:
        self._deadline_s = now_s + self._buffers.limits.frame_receive_timeout_s
        frame.noted = frame.filled

    def _room(self, frame: UnfinishedFrame, now_s: float) -> int:
        """Return how many more bytes of `frame` may be kept; 0 while memory is short and others are served first."""
        room = self._buffers.memory.room
        # While a reply is pending, the connection retries reading by itself: the reply may take long.
        may_wait = not self._owing
        return room(self._holder, self._address, frame.filled, max(frame.missing, 1), now_s, may_wait=may_wait)

    def overdue(self, now_s: float) -> ProtocolError | None:
        """Return why to refuse the connection, if its request has made no progress in time."""
        if self.state is not _READING or self._frame is None:
            return None
        memory = self._buffers.memory
        if memory.favoured == self._holder and now_s > min(self._deadline_s, memory.favoured_until_s):
            text = (
                "unfinished requests fill queued.max.request.bytes, and the request that was admitted arrived too "
                "slowly"
            )
            return ProtocolError("frame-memory-full", text)
        if now_s > self._deadline_s:
            text = "a request made no progress within sluicegate.frame.receive.timeout.ms"
            return ProtocolError("frame-too-slow", text)
        return None

    def cut_off(self) -> ProtocolError | None:
        """Return why to refuse the connection, if the client ends its side now."""
        return None if self._frame is None else _TRUNCATED

    def end(self, event: ConnectionEvent) -> bool:
        """Apply `event`; return whether it closes the connection now."""
        before = self.state
        self._transition(event)
        if self.state is not ConnectionState.CLOSED or before is ConnectionState.CLOSED:
            return False
        self._forget_frame()
        self.release()
        self.outgoing = None
        return True


_TRUNCATED = ProtocolError("frame-truncated", "the client disconnected in the middle of a request")


def _has_own_buffer(frame: UnfinishedFrame) -> bool:
    """Whether the rest of a large frame is received into its own buffer, without a copy."""
    return frame.missing >= _DIRECT_BYTES or frame.filled > SCRATCH_BYTES // 2
