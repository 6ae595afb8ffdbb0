"""A Transport in memory whose peer the test plays, and one that behaves like encryption."""

from collections.abc import Callable, Sequence

from broker_runtime.network.sockets.transport import SENDFILE_BYTES, FileUnreadableError
from broker_runtime.security.principal import Principal
from broker_runtime.wire.reply import FileRegion


class MemoryTransport:
    """A Transport in memory.

    `room` is the number of bytes that the peer can accept; `number` stands for a descriptor.
    """

    holds_bytes = False

    def __init__(self, number: int = 7, room: int = 1 << 30) -> None:
        self.room = room
        self.sent = bytearray()
        self._number = number
        self._arrived = bytearray()
        self._ended = False

    def arrive(self, data: bytes) -> None:
        self._arrived += data

    def end(self) -> None:
        """End the peer's side."""
        self._ended = True

    @property
    def holds_unread(self) -> bool:
        """Whether unread bytes have arrived."""
        return bool(self._arrived)

    def receive_into(self, space: memoryview, /) -> int:
        self._check_open()
        if not self._arrived and not self._ended:
            raise BlockingIOError
        count = min(len(space), len(self._arrived))
        space[:count] = self._arrived[:count]
        del self._arrived[:count]
        return count

    def write(self, buffers: Sequence[bytes | bytearray | memoryview], /) -> int:
        return self._take(b"".join(buffers))

    def send_region(self, region: FileRegion, /) -> int:
        data = region.file.pread(min(region.length, SENDFILE_BYTES), region.offset)
        if not data:
            raise FileUnreadableError("a log file is shorter than its index says")
        sent = self._take(data)
        region.offset += sent
        region.length -= sent
        return sent

    def _take(self, data: bytes) -> int:
        self._check_open()
        if not self.room:
            raise BlockingIOError
        taken = data[: self.room]
        self.sent += taken
        self.room -= len(taken)
        return len(taken)

    def on_handshake(self, ended: Callable[[Principal | None], None], begun: Callable[[], None], /) -> bool:
        del ended, begun
        return False

    def waits_for(self, *, read: bool, write: bool) -> tuple[bool, bool]:
        return read, write

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        self._number = -1

    def _check_open(self) -> None:
        if self._number < 0:
            raise OSError(9, "it is closed")


class EncryptingTransport(MemoryTransport):
    """A Transport in memory that behaves like TLS.

    It takes bytes from its socket in records of 16 KB, and must sometimes read before it may write.
    """

    RECORD_BYTES = 16 * 1024

    def __init__(self, number: int = 7, room: int = 1 << 30) -> None:
        super().__init__(number, room)
        self.must_read_first = False
        self._record = bytearray()

    @property
    def holds_bytes(self) -> bool:  # type: ignore[override]
        return bool(self._record)

    def receive_into(self, space: memoryview, /) -> int:
        if not self._record:
            record = memoryview(bytearray(self.RECORD_BYTES))
            self._record += record[: super().receive_into(record)]
            self.must_read_first = False
        count = min(len(space), len(self._record))
        space[:count] = self._record[:count]
        del self._record[:count]
        return count

    def _take(self, data: bytes) -> int:
        if self.must_read_first:
            raise BlockingIOError
        return super()._take(data[: self.RECORD_BYTES])

    def waits_for(self, *, read: bool, write: bool) -> tuple[bool, bool]:
        return read or (write and self.must_read_first), write and not self.must_read_first
