"""One outgoing connection without its socket: requests in, frames out; bytes in, responses out, in order. Pure.

The shell (`ClientConnection`) sends what is in `outgoing`, asks where bytes may go (`space`), reports how many arrived
(`received`) and gets the complete responses. The server answers in the order of the requests and with their correlation
ids (Kafka's protocol). Anything else raises ProtocolError, and the connection has to end. The caller passes the times.
"""

from collections import deque
from struct import Struct

from broker_runtime.errors import ProtocolError
from broker_runtime.network.settings import ClientLimits
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.messages import frame_request
from broker_runtime.wire.reply import Chunk

_SIZE_BYTES = 4
_CORRELATION_BYTES = 4
_CORRELATION_ID_MAX = 0x7FFFFFFF
_START_BYTES = 4 * 1024
"""Bytes received at once while no response is unfinished; a larger response gets a buffer of its size."""

_read_number = Struct(">i").unpack_from

Answer = tuple[int, memoryview]
"""A response: the correlation id of its request, and its body."""


class ClientMachine:
    """The unanswered requests of one outgoing connection, and the received part of the next response."""

    __slots__ = ("_body", "_correlation_id", "_filled", "_limits", "_start", "_waiting", "outgoing")

    def __init__(self, limits: ClientLimits) -> None:
        self.outgoing: list[Chunk] = []
        """Bytes that the socket has still to take, in order."""
        self._limits = limits
        self._waiting: deque[tuple[int, int, float]] = deque()
        """(correlation id, size of the response's header in bytes, time it was sent), oldest first."""
        self._correlation_id = 0
        self._start = memoryview(bytearray(_START_BYTES))
        self._body: memoryview | None = None
        """Buffer of a response that is larger than `_start`, without its size field."""
        self._filled = 0
        """Number of bytes received into `_body`, or into `_start` if there is no `_body`."""

    @property
    def full(self) -> bool:
        """Return whether no further request may be sent before a response has arrived."""
        return len(self._waiting) >= self._limits.in_flight_max

    @property
    def in_large_answer(self) -> bool:
        """Return whether a large response is unfinished, so that more of it has probably arrived already."""
        return self._body is not None

    def waited_s(self, now_s: float) -> float:
        """Return the seconds that the oldest request has waited for its response; 0 if none waits."""
        return now_s - self._waiting[0][2] if self._waiting else 0.0

    def request(self, api_key: int, version: int, body: bytes | memoryview, now_s: float) -> int:
        """Append a request to `outgoing` and return the correlation id. Must not be called while `full`."""
        assert not self.full
        number = self._correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MAX
        self.outgoing.append(frame_request(api_key, version, number, body))
        header_bytes = len(response_prefix(api_key, version, number, 0)) - _SIZE_BYTES
        self._waiting.append((number, header_bytes, now_s))
        return number

    def space(self) -> memoryview:
        """Return the buffer for the next bytes, valid until `received` is called."""
        return (self._start if self._body is None else self._body)[self._filled :]

    def received(self, count: int) -> list[Answer]:
        """Process `count` bytes that have arrived in `space`.

        Return the responses that are now complete, in buffers of their own.
        """
        self._filled += count
        body = self._body
        if body is None:
            return self._answers_in_start()
        if self._filled < len(body):
            return []
        self._body, self._filled = None, 0
        return [self._answer(body)]

    def _answers_in_start(self) -> list[Answer]:
        answers: list[Answer] = []
        start, position, end = self._start, 0, self._filled
        while end - position >= _SIZE_BYTES:
            (size,) = _read_number(start, position)
            self._check_size(size)
            frame_end = position + _SIZE_BYTES + size
            if frame_end > end:
                if _SIZE_BYTES + size > len(start):
                    self._begin_body(position + _SIZE_BYTES, size)
                    return answers
                break
            answers.append(self._answer(memoryview(bytes(start[position + _SIZE_BYTES : frame_end]))))
            position = frame_end
        if position:
            rest = bytes(start[position:end])
            start[: len(rest)] = rest
            self._filled = len(rest)
        return answers

    def _check_size(self, size: int) -> None:
        if not self._waiting:
            raise ProtocolError("unasked-answer", "data arrived that is not a response to a request")
        if not _CORRELATION_BYTES <= size <= self._limits.response_bytes_max:
            raise ProtocolError("frame-too-large", f"a response announced {size} bytes")

    def _begin_body(self, position: int, size: int) -> None:
        come = self._filled - position
        self._body = memoryview(bytearray(size))
        self._body[:come] = self._start[position : self._filled]
        self._filled = come

    def _answer(self, frame: memoryview) -> Answer:
        number, header_bytes, _ = self._waiting.popleft()
        if len(frame) < header_bytes or _read_number(frame)[0] != number:
            raise ProtocolError("wrong-correlation", "the response belongs to another request")
        return number, frame[header_bytes:]
