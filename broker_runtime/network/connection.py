"""One client connection: bytes in, complete requests to the handler, replies out, strictly in order. Shell.

Reads go into a scratch buffer that all connections share, and the requests in it are handled where they lie;
only what is unfinished at the end of a read is copied. While a reply is pending or cannot be sent, nothing more is
read (Kafka mutes the channel in the same way). Requests beyond what one turn allows wait in `Turns`, and nothing more
is read before they are handled. Knows neither APIs nor quotas.

A handler's `frame` (without the size field) is valid during the call only: it must copy what it keeps, and its
reply must not point into it. Its Reply begins with the size field.
"""

import errno
import os
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Protocol

from broker_runtime.clock import Clock
from broker_runtime.errors import ProtocolError
from broker_runtime.network.frames import SIZE_BYTES, UnfinishedFrame, check_size, frame_length, read_size
from broker_runtime.network.output import Output, TruncatedRegionError, sent_at_once
from broker_runtime.network.poller import Poller
from broker_runtime.network.request_memory import RequestMemory
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.network.turns import Turns
from broker_runtime.wire.reply import Chunk, FileRegion, PendingReply, Reply

SCRATCH_BYTES = 256 * 1024
_DIRECT_BYTES = 16 * 1024
"""A frame that misses at least so much is received into its own buffer instead of the scratch."""
_SHORT_READ_BYTES = 16 * 1024
"""Read at once while memory for unfinished requests is short, as more of it would have to be kept."""
_PROGRESS_BYTES = 16 * 1024
"""A request that gains so much within the time-out goes on arriving; a byte now and then does not count."""
_OUTPUT_TURN_BYTES = 256 * 1024
"""Replies are sent when they add up to so much, so that many small requests cannot pile up huge replies."""
_DEAL_S = 0.01
_GONE = frozenset(
    {errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTUNREACH, errno.ECONNABORTED}
)


Origin = tuple[int, str, tuple[str, int], float]
"""Connection id, listener, peer, time of the accept in seconds."""


class Handler(Protocol):
    def __call__(self, frame: memoryview, connection: "Connection") -> Reply | PendingReply:
        """ProtocolError ends the connection."""
        ...


class ConnectionHost(Protocol):
    """What the owner of the connections is told."""

    def connection_closed(self, connection: "Connection") -> None: ...

    def connection_refused(self, connection: "Connection", kind: str, text: str) -> None:
        """The connection is about to be closed for `kind`; to be counted, and logged now and then."""
        ...

    def handler_failed(self, connection: "Connection", error: Exception) -> None:
        """A mistake of ours, not of the client."""
        ...


class Shared:
    """What all connections of one event loop have in common."""

    __slots__ = (
        "_dealing",
        "clock",
        "established_used_s",
        "handler",
        "host",
        "limits",
        "loop",
        "memory",
        "now",
        "poller",
        "scratch",
        "turns",
        "unfinished",
    )

    def __init__(
        self, loop: AbstractEventLoop, poller: Poller, clock: Clock, limits: NetworkLimits, handler: Handler
    ) -> None:
        self.loop = loop
        self.poller = poller
        self.clock = clock
        self.now: Callable[[], float] = clock.monotonic
        self.limits = limits
        self.handler = handler
        self.host: ConnectionHost
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.turns = Turns(loop, self.now, limits.turn_s)
        self.memory = RequestMemory(limits.max_buffered_bytes, limits.max_request_bytes, limits.frame_receive_timeout_s)
        self._dealing = False
        self.established_used_s = float("-inf")
        """When a connection that is no new one last sent something."""
        self.unfinished: set[Connection] = set()

    def deal_memory(self) -> None:
        """Some was given back: those that wait for it ask again, soon and all at once."""
        if len(self.memory) and not self._dealing:
            self._dealing = True
            self.loop.call_later(_DEAL_S, self._deal)

    def _deal(self) -> None:
        self._dealing = False
        for connection in self.memory.waiting:
            assert isinstance(connection, Connection)
            connection.go_on()


class Connection:
    """`state` belongs to the API layer. Times are seconds of the clock given in `Shared`."""

    __slots__ = (
        "_closing",
        "_established_from_s",
        "_fd",
        "_frame_deadline_s",
        "_in_pass",
        "_output",
        "_pending",
        "_read_paused",
        "_shared",
        "_turn_asked",
        "_unfinished",
        "_watched",
        "id",
        "last_used_s",
        "listener",
        "peer",
        "state",
    )

    def __init__(self, fd: int, origin: Origin, shared: Shared) -> None:
        self._fd = fd
        self.id = origin[0]
        self.listener = origin[1]
        self.peer = origin[2]
        self.last_used_s = origin[3]
        self._established_from_s = origin[3] + shared.limits.established_after_s
        self.state: object = None
        self._shared = shared
        self._unfinished: UnfinishedFrame | None = None
        self._frame_deadline_s = 0.0
        self._output: Output | None = None
        self._pending: PendingReply | None = None
        self._in_pass: list[Chunk] | None = None
        self._watched = False
        self._read_paused = False
        self._turn_asked = False
        self._closing = False

    def __str__(self) -> str:
        return f"the client {self.peer[0]}:{self.peer[1]} of {self.listener}"

    def start(self) -> None:
        """Read what the client has already sent, then wait for more."""
        self._receive()
        if self._fd >= 0:
            self._shared.poller.watch(self._fd, self)
            self._watched = True
            if self._output is not None:
                self._change_interest()

    # State that the owner asks for

    @property
    def busy(self) -> bool:
        """A request is being answered."""
        return self._pending is not None or self._output is not None

    def frame_overdue(self, now_s: float) -> bool:
        """Never while the connection is muted: then it is we who do not read."""
        if self._unfinished is None or self.busy or self._read_paused or self._unfinished.complete:
            return False
        memory = self._shared.memory
        return now_s > self._frame_deadline_s or (memory.favoured is self and now_s > memory.favoured_until_s)

    # Events

    def on_readable(self) -> None:
        if self._pending is not None or self._output is not None or self._closing or self._leftover():
            self._pause_reading()
        else:
            self._receive()

    def on_writable(self) -> None:
        output = self._output
        if output is None:
            return
        try:
            sent = output.flush(self._fd)
        except OSError as error:
            self._socket_failed(error)
            return
        if sent:
            self.last_used_s = self._shared.now()
        if not output:
            self._output = None
            self._change_interest()
            if self._pending is None:
                self._answered()

    def on_hang_up(self) -> None:
        if not self._turn_asked or self.busy or not self._leftover():
            self.close()
        # Else what has arrived is carried out first, as in Kafka: who produces with acks=0 waits for nothing.

    # Reading

    def _receive(self) -> None:
        shared = self._shared
        frame = self._unfinished
        try:
            if frame is None:
                filled = 0
                space = shared.scratch if shared.memory.ample else shared.scratch[:_SHORT_READ_BYTES]
                received = os.readv(self._fd, (space,))
            else:
                room = self._room(frame)
                if not room:
                    self._pause_reading()
                    return
                if frame.missing >= _DIRECT_BYTES or frame.filled > SCRATCH_BYTES // 2:
                    self._receive_directly(frame, room)
                    return
                filled = frame.filled
                shared.scratch[:filled] = memoryview(frame.buffer)[:filled]
                received = os.readv(self._fd, (shared.scratch[filled : filled + max(room, _SHORT_READ_BYTES)],))
        except BlockingIOError:
            return
        except OSError as error:
            self._socket_failed(error)
            return
        if received == 0:
            self._end_of_stream()
            return
        now_s = self.last_used_s = shared.now()
        if now_s > self._established_from_s:
            shared.established_used_s = now_s
        self._handle_bytes(shared.scratch[: filled + received])

    def _receive_directly(self, frame: UnfinishedFrame, room: int) -> None:
        shared = self._shared
        space = frame.free_space()[:room]
        received = os.readv(self._fd, (space,))
        space.release()
        if received == 0:
            self._end_of_stream()
            return
        self.last_used_s = shared.now()
        frame.filled += received
        shared.memory.take(self, self.peer[0], received)
        if frame.missing == 0:
            self._handle_bytes(memoryview(frame.buffer))
        elif frame.filled - frame.noted >= _PROGRESS_BYTES:
            self._restart_frame_deadline(frame)

    def _room(self, frame: UnfinishedFrame) -> int:
        """How many bytes more may be kept of `frame`; 0 while memory is short and it is not this connection's turn."""
        shared = self._shared
        missing = max(frame.missing, 1)
        return shared.memory.room(self, self.peer[0], frame.filled, missing, shared.now())

    def _end_of_stream(self) -> None:
        if self._unfinished is not None:
            self.refuse("frame-truncated", "the client went away in the middle of a request")
        else:
            self.close()

    def _handle_bytes(self, data: memoryview) -> None:
        """Handle as many complete requests in `data` as one turn allows, keep the rest, send the replies."""
        replies: list[Chunk] = []
        self._in_pass = replies
        try:
            position = self._handle_frames(data, replies)
        except ProtocolError as error:
            # Requests before the bad one have been carried out, so their replies are sent.
            self._end_pass(replies)
            self.refuse(error.kind, str(error))
            return
        except Exception as error:  # noqa: BLE001 - the host logs it; the other connections go on
            self._in_pass = None
            self._shared.host.handler_failed(self, error)
            self.close()
            return
        if self._fd < 0:
            return
        if position < len(data):
            self._keep(data[position:], handled=position)
        elif self._unfinished is not None:
            self._forget_unfinished()
        self._end_pass(replies)
        if self._fd >= 0 and self._leftover() and not self.busy:
            self.go_on()

    def _handle_frames(self, data: memoryview, replies: list[Chunk]) -> int:
        """The position after the last request that was handled."""
        shared = self._shared
        limits, now = shared.limits, shared.now
        handler, max_bytes = shared.handler, limits.max_request_bytes
        left, stop_s = limits.connection_turn_requests, self.last_used_s + limits.connection_turn_s
        position, length, unsent = 0, len(data), 0
        while length - position >= SIZE_BYTES:
            (size,) = read_size(data, position)
            if not 0 <= size <= max_bytes:
                check_size(size, max_bytes)
            end = position + SIZE_BYTES + size
            if end > length or (position and (left <= 0 or now() >= stop_s)):
                break
            reply = handler(data[position + SIZE_BYTES : end], self)
            position = end
            left -= 1
            if isinstance(reply, PendingReply):
                self._pending = reply
                reply.on_complete(self._deliver)
                if self._pending is not None or self._fd < 0:
                    break
                continue
            for chunk in reply:
                replies.append(chunk)
                unsent += chunk.length if isinstance(chunk, FileRegion) else len(chunk)
            if unsent >= _OUTPUT_TURN_BYTES:
                self._send(replies)
                unsent = 0
                if self._output is not None or self._fd < 0:
                    break
        return position

    def _end_pass(self, replies: list[Chunk]) -> None:
        self._in_pass = None
        if replies and self._fd >= 0:
            self._send(replies)

    def _keep(self, rest: memoryview, *, handled: int) -> None:
        """Copy what has no complete request yet, or none that may be handled yet, out of the shared buffer."""
        shared = self._shared
        needed = frame_length(rest, shared.limits.max_request_bytes)
        frame = self._unfinished
        is_new = handled > 0 or frame is None
        if frame is not None and frame.complete and 0 < needed <= len(rest):
            # `rest` lies in this buffer: it is kept until its last complete request has been handled.
            frame.skip(handled, needed)
            return
        self._forget_unfinished()
        frame = self._unfinished = UnfinishedFrame(rest, needed)
        shared.memory.take(self, self.peer[0], frame.filled)
        shared.unfinished.add(self)
        if is_new:
            self._restart_frame_deadline(frame)

    def _restart_frame_deadline(self, frame: UnfinishedFrame) -> None:
        shared = self._shared
        self._frame_deadline_s = shared.now() + shared.limits.frame_receive_timeout_s
        frame.noted = frame.filled

    def _forget_unfinished(self) -> None:
        frame = self._unfinished
        if frame is not None:
            self._unfinished = None
            self._shared.unfinished.discard(self)
            self._shared.memory.give_back(self, self.peer[0], frame.filled)
            self._shared.deal_memory()

    def _leftover(self) -> bool:
        """Complete requests that came while an earlier one was not answered yet."""
        return self._unfinished is not None and self._unfinished.complete

    def _pause_reading(self) -> None:
        if not self._read_paused:
            self._read_paused = True
            self._change_interest()

    def _change_interest(self) -> None:
        if self._watched:
            self._shared.poller.change(self._fd, read=not self._read_paused, write=self._output is not None)

    def _answered(self) -> None:
        """Nothing is pending and everything is sent: go on with the next request."""
        if self._closing:
            self.close()
            return
        if self._unfinished is not None:
            self._restart_frame_deadline(self._unfinished)
        self.go_on()

    def go_on(self) -> None:
        """Ask for a turn, if there is something to do that had to wait."""
        if not self._turn_asked and (self._read_paused or self._leftover()):
            self._turn_asked = True
            self._shared.turns.add(self)

    def take_turn(self) -> None:
        self._turn_asked = False
        if self._fd < 0 or self.busy or self._closing:
            return
        if self._unfinished is not None and self._unfinished.complete:
            self.last_used_s = self._shared.now()
            self._handle_bytes(self._unfinished.arrived)
        if self._fd >= 0 and self._read_paused and not self.busy and not self._leftover():
            frame = self._unfinished
            if frame is None or self._room(frame):
                if frame is not None:
                    self._restart_frame_deadline(frame)
                self._read_paused = False
                self._change_interest()

    # Writing

    def _deliver(self, reply: Reply | None) -> None:
        """The pending reply is there."""
        self._pending = None
        if self._fd < 0:
            return
        if reply is None:
            self.close()
            return
        if self._in_pass is not None:
            self._in_pass.extend(reply)
            return
        if reply:
            self._send(list(reply))
        if self._fd >= 0 and self._output is None:
            self._answered()

    def _send(self, chunks: list[Chunk]) -> None:
        """Send `chunks`, emptying the list; what the socket does not take waits in `_output`."""
        try:
            if self._output is not None:
                self._output.extend(chunks)
            elif not sent_at_once(self._fd, chunks):
                output = Output(chunks)
                output.flush(self._fd)
                if output:
                    self._output = output
                    self._change_interest()
        except OSError as error:
            self._socket_failed(error)
        chunks.clear()

    # The end

    def _socket_failed(self, error: OSError) -> None:
        if isinstance(error, TruncatedRegionError):
            self.refuse("reply-truncated", str(error))
        elif error.errno in _GONE:
            self.close()
        else:
            self.refuse("socket-error", str(error))

    def refuse(self, kind: str, text: str) -> None:
        """End the connection for what the client sent: counted by `kind`, logged now and then.

        For requests that turn out bad after their handler has returned a PendingReply; before that it raises.
        """
        if self._fd >= 0:
            self._shared.host.connection_refused(self, kind, text)
            self.close()

    def refuse_overdue(self) -> None:
        if self._shared.memory.favoured is self:
            text = "unfinished requests fill queued.max.request.bytes, and the one that was let through came too slowly"
            self.refuse("frame-memory-full", text)
        else:
            self.refuse("frame-too-slow", "a request went no further within sluicegate.frame.receive.timeout.ms")

    def close_when_idle(self) -> None:
        """Answer what is being handled, take nothing more, then close."""
        if self.busy:
            self._closing = True
        else:
            self.close()

    def close(self) -> None:
        fd = self._fd
        if fd < 0:
            return
        self._fd = -1
        self._shared.poller.forget(fd)
        os.close(fd)
        self._forget_unfinished()
        self._output = None
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.cancel()
        self._shared.host.connection_closed(self)
