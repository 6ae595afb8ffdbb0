"""A handler's reply to the connection: bytes, regions of files, or a promise of them.

Knows nothing of sockets: `network.connection` writes replies, `apis` make them.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

SHORT_BYTES = 65_536
"""Size up to which bytes are copied into one chunk: a socket takes one chunk in less time than several."""


class ReadableFile(Protocol):
    """An open file that stays open for as long as it is referenced. A deleted segment may still be read."""

    def fileno(self) -> int:
        """Return a descriptor for sendfile. Raises OSError for a file without a descriptor (a file in memory)."""
        ...

    def pread(self, size: int, offset: int) -> bytes: ...


class FileRegion:
    """A part of a file that is sent as a part of a reply, without passing through Python.

    It has `length` bytes from `offset` of the file. `on_unreadable` is called when these turn out to be unreadable
    after the reply has begun: only the next reply can have an error. `next_offset` is the log's offset after them, -1
    if it is unknown.
    """

    __slots__ = ("file", "length", "next_offset", "offset", "on_unreadable")

    def __init__(
        self,
        file: ReadableFile,
        offset: int,
        length: int,
        on_unreadable: Callable[[], None] | None = None,
        next_offset: int = -1,
    ) -> None:
        self.file = file
        self.offset = offset
        self.length = length
        self.on_unreadable = on_unreadable
        self.next_offset = next_offset

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        return self.file.pread(self.length, self.offset)


Chunk = bytes | bytearray | memoryview | FileRegion
Reply = tuple[Chunk, ...]
"""A whole response frame, size field included; empty when nothing is sent (produce with acks=0)."""

NO_REPLY: Reply = ()

Parts = tuple[memoryview, ...]
"""Bytes of a message in order. They are not copied into one buffer: for a long message, that would be a long step."""


def parts_of(chunks: Iterable[Chunk]) -> Parts:
    """Return the bytes of a reply, without copying them. Regions of files are read."""
    return tuple(memoryview(chunk.read() if isinstance(chunk, FileRegion) else chunk) for chunk in chunks)


def section(parts: Parts, begin: int, end: int) -> Parts:
    """Return the bytes from offset `begin` to offset `end` of all parts together, without copying them."""
    found = []
    at = 0
    for part in parts:
        piece = part[max(begin - at, 0) : max(end - at, 0)]
        if piece:
            found.append(piece)
        at += len(part)
    return tuple(found)


def joined(parts: Parts) -> memoryview:
    """Return the bytes of a short message in one buffer, and a single part without a copy."""
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


class PendingReply:
    """A reply that comes later. Until then the connection is muted, as Kafka mutes a channel.

    The maker calls `complete` once. The connection calls `on_complete` to be notified, and `cancel` when the client has
    disconnected. A cancellation runs the maker's `on_cancel`, so that nothing waits for a closed connection. With
    `admits` the maker lets the connection process further requests before: their replies follow this one.
    """

    __slots__ = ("_callback", "_reply", "admits", "done", "on_cancel")

    def __init__(self, on_cancel: Callable[[], None] | None = None) -> None:
        self.done = False
        self.on_cancel = on_cancel
        self.admits: Callable[[memoryview], bool] | None = None
        """Whether the request in a frame may be processed before this reply exists; None: no request may."""
        self._reply: Reply | None = None
        self._callback: Callable[[Reply | None], None] | None = None

    def complete(self, reply: Reply | None) -> None:
        """Deliver the reply to the connection that waits for it.

        None means that the connection must be closed instead.
        """
        if not self.done:
            self._deliver(reply)

    def _deliver(self, reply: Reply | None) -> None:
        self.done = True
        self._reply = reply
        callback = self._callback
        self._let_go()
        if callback is not None:
            callback(reply)

    def _let_go(self) -> None:
        """Drop the callbacks, which may refer to this reply: the garbage collector does not search for such cycles."""
        self.on_cancel = self._callback = None

    def guarded(self, step: Callable[[], None]) -> Callable[[], None]:
        """Guard `step` for timers and other callers: when it raises, close the connection.

        Then nothing waits for this reply any more, and the caller gets the error.
        """

        def run() -> None:
            try:
                step()
            except Exception:
                if not self.done and self.on_cancel is not None:
                    self.on_cancel()
                self.complete(None)
                raise

        return run

    @property
    def existing(self) -> Reply | None:
        """Return the reply that was delivered; None means that the connection must be closed instead."""
        return self._reply

    def on_complete(self, callback: Callable[[Reply | None], None]) -> None:
        """Run `callback` with the reply, at once if the reply was already delivered."""
        if self.done:
            callback(self._reply)
        else:
            self._callback = callback

    def cancel(self) -> None:
        if self.done:
            return
        self.done = True
        on_cancel = self.on_cancel
        self._let_go()
        if on_cancel is not None:
            on_cancel()
