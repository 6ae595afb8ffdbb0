"""Buffer of one unfinished request: it grows with what arrives, never with what is announced. Pure.

Wire format, as in Kafka's protocol: four bytes of size (big-endian, signed), then the request.
"""

from math import inf
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from struct import Struct

from broker_runtime.errors import ProtocolError

SIZE_BYTES = 4
_FIRST_CAPACITY = 64 * 1024
_SMALL_BYTES = 256 * 1024
_GROWTH_OF_SMALL, _GROWTH = 4, 2
"""Growth factors of a frame's buffer: a request of a megabyte is copied once or twice."""
_LARGE_BYTES = 1024 * 1024
"""A frame of this size or more gets all of its space at once. The system allocates memory only for arrived bytes."""

read_size = Struct(">i").unpack_from


def check_size(size: int, max_bytes: int) -> None:
    if size < 0:
        raise ProtocolError("frame-negative-size", f"a request announced {size} bytes")
    if size > max_bytes:
        raise ProtocolError(
            "frame-too-large",
            f"a request announced {size} bytes; {max_bytes} are allowed (socket.request.max.bytes, or "
            "sasl.server.max.receive.size for a client that is not authenticated)",
        )


def frame_length(data: memoryview, max_bytes: int) -> int:
    """Return the length of the first frame in `data`, size field included; 0 while it is unknown.

    If the size is not allowed, this returns `len(data)`: the frame counts as complete, and is refused when it is
    handled.
    """
    if len(data) < SIZE_BYTES:
        return 0
    (size,) = read_size(data, 0)
    return SIZE_BYTES + size if 0 <= size <= max_bytes else len(data)


class UnfinishedFrame:
    """The buffer of one unfinished request.

    `buffer[start:filled]` has arrived; `needed` is the size of the whole frame with its size field, 0 while unknown.

    `noted` is the amount that had arrived when progress was last noted. The buffer may contain several frames while
    requests wait for their time slice: `skip` moves past those that are handled.
    """

    __slots__ = ("buffer", "deadline_s", "filled", "needed", "noted", "start")

    def __init__(self, data: memoryview, needed: int) -> None:
        self.deadline_s = inf
        """Deadline for progress; infinite while the client is muted."""
        self.start = 0
        self.filled = self.noted = len(data)
        self.needed = needed
        self.buffer: bytearray | mmap = bytearray(
            max(self.filled, self._capacity(_FIRST_CAPACITY)) if needed else self.filled
        )
        self.buffer[: self.filled] = data

    def _capacity(self, floor: int) -> int:
        growth = _GROWTH_OF_SMALL if self.filled <= _SMALL_BYTES else _GROWTH
        return min(self.needed, max(floor, growth * self.filled))

    def _larger_buffer(self) -> bytearray | mmap:
        if self.filled >= _LARGE_BYTES:
            try:
                # Copying tens of megabytes, or filling them with zeros, blocks the event loop for 0.1 s.
                return mmap(-1, self.needed, flags=MAP_PRIVATE | MAP_ANONYMOUS)
            except OSError:
                # The system counts memory that is not used yet (vm.overcommit_memory=2).
                pass
        return bytearray(self._capacity(_FIRST_CAPACITY))

    @property
    def missing(self) -> int:
        return self.needed - (self.filled - self.start)

    @property
    def complete(self) -> bool:
        return self.needed != 0 and self.missing <= 0

    @property
    def arrived(self) -> memoryview:
        return memoryview(self.buffer)[self.start : self.filled]

    def skip(self, count: int, needed: int) -> None:
        """Skip the first `count` bytes of the buffer. The complete frame behind them has `needed` bytes."""
        self.start += count
        self.needed = needed

    def free_space(self) -> memoryview:
        """Return the space for the next bytes of this frame; grow the buffer if it is full."""
        if self.filled == len(self.buffer):
            grown = self._larger_buffer()
            memoryview(grown)[: self.filled] = self.buffer
            self.buffer = grown
        return memoryview(self.buffer)[self.filled :]
