"""The bytes that a connection has received and not handled yet, cut into requests. Pure; times are given.

Reads go into a scratch buffer that all connections share, and requests are handled there without a copy. Only the rest
at the end of a time slice is copied, into an `UnfinishedFrame`. Its bytes count as request memory until it is handled.
"""

from collections.abc import Callable, Sequence
from math import inf

from broker_runtime.errors import ProtocolError
from broker_runtime.network.connection.received.frames import (
    SIZE_BYTES,
    UnfinishedFrame,
    check_size,
    frame_length,
    read_size,
)
from broker_runtime.network.connection.received.request_memory import RequestMemory
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.wire.answer_memory import AnswerMemory

SCRATCH_BYTES = 256 * 1024
_DIRECT_BYTES = 16 * 1024
"""A frame that misses at least this many bytes is received into its own buffer instead of the scratch."""
_SHORT_READ_BYTES = 16 * 1024
"""Bytes read at once while memory for unfinished requests is short: more would have to be kept."""
_PROGRESS_BYTES = 16 * 1024
"""A request that gains this many bytes within the timeout makes progress; a byte now and then does not count."""


class SharedBuffers:
    """The buffers that the machines of one event loop share: the scratch, and the memory for unfinished requests.

    `freed` is called after memory for requests was released. `answers` counts the answers that clients do not read.
    """

    __slots__ = ("answers", "freed", "limits", "memory", "scratch", "short_scratch")

    def __init__(self, limits: NetworkLimits, freed: Callable[[], None], answers: AnswerMemory | None = None) -> None:
        self.freed = freed
        self.answers = AnswerMemory() if answers is None else answers
        self.limits = limits
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.short_scratch = self.scratch[:_SHORT_READ_BYTES]
        self.memory: RequestMemory[int] = RequestMemory(
            limits.max_buffered_bytes, limits.max_request_bytes, limits.frame_receive_timeout_s
        )


class TimeSlice:
    """The requests in `data` that one time slice may handle.

    They end at `end`, and `handled` of them have been handled.

    No further request is handled from `stop_s` on. `unsent` is the number of bytes in replies that were not sent yet. A
    request that arrives alone has no TimeSlice.
    """

    __slots__ = ("data", "end", "handled", "requests", "stop_s", "unsent")

    def __init__(self, data: memoryview, requests: Sequence[memoryview], end: int, stop_s: float) -> None:
        self.data = data
        self.requests = requests
        self.end = end
        self.stop_s = stop_s
        self.handled = self.unsent = 0

    def next(self, now_s: float) -> memoryview | None:
        """Return the next request; None if the time slice has handled all of them, or has no time left."""
        handled = self.handled
        if now_s >= self.stop_s and handled:
            return None
        return self.requests[handled] if handled < len(self.requests) else None

    @property
    def handled_bytes(self) -> int:
        """Return the number of bytes in `data` that need not be kept."""
        return self.end - sum(SIZE_BYTES + len(request) for request in self.requests[self.handled :])


class Incoming:
    """The received bytes of the connection `holder` that are not handled yet.

    `holder` and the client's `address` are for the accounting of request memory. `frame` is an incomplete request, None
    if there is none.
    """

    __slots__ = (
        "_address",
        "_held_bytes",
        "buffers",
        "frame",
        "holder",
        "is_held",
        "max_request_bytes",
    )

    def __init__(self, holder: int, address: str, buffers: SharedBuffers) -> None:
        self.frame: UnfinishedFrame | None = None
        self.max_request_bytes = buffers.limits.max_request_bytes
        """A client that is not authenticated may send less than others."""
        self.holder = holder
        self._address = address
        self.buffers = buffers
        self.is_held = False
        """Whether a handler reads its frame after its call."""
        self._held_bytes = 0
        """Bytes of such a frame, and copied bytes. They count as request memory, though none of it is unfinished any
        more."""

    def space(self, frame: UnfinishedFrame, now_s: float, *, may_wait: bool) -> memoryview | None:
        """Return the buffer for the next bytes of `frame`; None while there is no memory for these bytes."""
        room = self.room(frame, now_s, may_wait=may_wait)
        if not room:
            frame.deadline_s = inf
            return None
        if _has_own_buffer(frame):
            return frame.free_space()[:room]
        filled, scratch = frame.filled, self.buffers.scratch
        scratch[:filled] = memoryview(frame.buffer)[:filled]
        return scratch[filled : filled + max(room, _SHORT_READ_BYTES)]

    def room(self, frame: UnfinishedFrame, now_s: float, *, may_wait: bool) -> int:
        """Return how many more bytes of `frame` may be kept.

        The result is 0 while memory is short and other requests come first. Without `may_wait` the request does not
        join the queue for memory: its connection tries again by itself, for example while a reply is pending.
        """
        room = self.buffers.memory.room
        return room(self.holder, self._address, frame.filled, max(frame.missing, 1), now_s, may_wait=may_wait)

    def with_frame(self, frame: UnfinishedFrame, count: int, now_s: float) -> memoryview | None:
        """Return `frame` and the `count` bytes received in `space`; None while a large request is incomplete."""
        if not _has_own_buffer(frame):
            return self.buffers.scratch[: frame.filled + count]
        frame.filled += count
        self.buffers.memory.take(self.holder, self._address, count)
        if frame.missing == 0:
            return memoryview(frame.buffer)
        if frame.filled - frame.noted >= _PROGRESS_BYTES:
            self.restart_deadline(now_s)
        return None

    def requests_in(self, data: memoryview, now_s: float) -> TimeSlice:
        """Return as many requests as one time slice allows. A forbidden size is refused after the earlier requests.

        Raises ProtocolError if `data` begins with a forbidden size.
        """
        limits = self.buffers.limits
        max_bytes, left = self.max_request_bytes, limits.connection_turn_requests
        position, length = 0, len(data)
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
        return TimeSlice(data, requests, position, now_s + limits.connection_turn_s)

    def keep_rest(self, time_slice: TimeSlice, now_s: float) -> None:
        """Keep the rest of `time_slice`: incomplete requests, and complete ones that may not be handled yet."""
        position = time_slice.handled_bytes
        if position == len(time_slice.data):
            self.forget()
            return
        rest = time_slice.data[position:]
        needed = frame_length(rest, self.max_request_bytes)
        frame = self.frame
        is_new = position > 0 or frame is None
        if frame is not None and frame.complete and 0 < needed <= len(rest):
            # `rest` is in this buffer: it is kept until its last complete request has been handled.
            frame.skip(position, needed)
            return
        deadline_s = inf if frame is None else frame.deadline_s
        self.forget()
        frame = self.frame = UnfinishedFrame(rest, needed)
        self.buffers.memory.take(self.holder, self._address, frame.filled)
        if frame.complete:
            return
        frame.deadline_s = deadline_s
        if is_new:
            self.restart_deadline(now_s)

    def forget(self) -> None:
        """Forget the rest, which is handled or never will be."""
        frame = self.frame
        if frame is not None:
            self.frame = None
            if self.is_held:
                self._held_bytes += frame.filled
                return
            self.buffers.memory.give_back(self.holder, self._address, frame.filled)
            self.buffers.freed()

    def hold(self, frame: memoryview) -> memoryview:
        """Return the current request's bytes, valid until `release`.

        A frame larger than the shared buffer has a buffer of its own, whose memory counts until then.
        """
        if len(frame) <= SCRATCH_BYTES:
            return memoryview(bytes(frame))
        self.is_held = True
        return frame

    def release(self, copied_bytes: int = 0) -> None:
        """Release the frame on hold, which the handler no longer reads.

        `copied_bytes`, which the handler has copied, count instead until the next call.
        """
        self.is_held = False
        held, self._held_bytes = self._held_bytes, copied_bytes
        if held:
            self.buffers.memory.give_back(self.holder, self._address, held)
            self.buffers.freed()
        if copied_bytes:
            self.buffers.memory.take(self.holder, self._address, copied_bytes)

    def restart_deadline(self, now_s: float) -> None:
        """Give the unfinished request a whole timeout again."""
        if self.frame is not None:
            self.frame.deadline_s = now_s + self.buffers.limits.frame_receive_timeout_s
            self.frame.noted = self.frame.filled

    def stop_deadline(self) -> None:
        """Stop the timeout of the unfinished request while the client is muted."""
        if self.frame is not None:
            self.frame.deadline_s = inf

    def resume_deadline(self, now_s: float) -> None:
        """Restart the timeout of the unfinished request if it was stopped."""
        if self.frame is not None and self.frame.deadline_s == inf:
            self.restart_deadline(now_s)

    def overdue(self, now_s: float) -> ProtocolError | None:
        """Return why to refuse the connection, if its request has made no progress in time; else None.

        The connection must be read from.
        """
        frame = self.frame
        if frame is None:
            return None
        memory = self.buffers.memory
        if memory.favoured == self.holder and now_s > min(frame.deadline_s, memory.favoured_until_s):
            text = (
                "unfinished requests fill queued.max.request.bytes, and the request that was admitted arrived too "
                "slowly"
            )
            return ProtocolError("frame-memory-full", text)
        if now_s > frame.deadline_s:
            text = "a request made no progress within sluicegate.frame.receive.timeout.ms"
            return ProtocolError("frame-too-slow", text)
        return None


def _has_own_buffer(frame: UnfinishedFrame) -> bool:
    """Whether the rest of a large frame is received into its own buffer, without a copy."""
    return frame.missing >= _DIRECT_BYTES or frame.filled > SCRATCH_BYTES // 2
