"""A handler's reply to the connection: bytes, regions of files, or a promise of them.

Knows nothing of sockets: `network.connection` writes replies, `apis` make them.
"""

from collections.abc import Callable
from typing import Protocol


class ReadableFile(Protocol):
    """An open file that stays open for as long as it is referenced (a deleted segment may still be read)."""

    def fileno(self) -> int:
        """Return a descriptor for sendfile. Raises OSError if there is none (files in memory)."""
        ...

    def pread(self, size: int, offset: int) -> bytes: ...


class FileRegion:
    """A part of a file that is sent as a part of a reply.

    `length` bytes from `offset` of a file, sent without passing through Python.

    `on_unreadable` is called when they turn out to be unreadable after the reply has begun: only the next reply can
    have an error. `next_offset` is the log's offset after them, -1 if it is unknown.
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
"""The whole response frame, size field included; empty when nothing is sent (produce with acks=0)."""

NO_REPLY: Reply = ()


class PendingReply:
    """A reply that comes later. Until then the connection is muted, as Kafka mutes a channel.

    The maker calls `complete` once. The connection calls `on_complete` to be notified, and `cancel` when the client has
    disconnected. That runs the maker's `on_cancel`, so that nothing waits for a closed connection. With `admits` the
    maker lets the connection process further requests before: their replies follow this one.
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
        """Deliver the reply; None means that the connection must be closed instead."""
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
        """Guard `step` for timers and other callers: when it raises, nothing waits for this reply any more.

        The connection is closed then, and the caller gets the error.
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
        """The reply of one that is `done`; None means that the connection must be closed instead."""
        return self._reply

    def on_complete(self, callback: Callable[[Reply | None], None]) -> None:
        """Run `callback` with the reply, at once if it exists already."""
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
