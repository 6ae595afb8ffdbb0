"""The interface between connections (`network`) and request handlers (`apis`)."""

from collections.abc import Callable
from typing import Protocol

from broker_runtime.security.principal import Principal
from broker_runtime.wire.reply import PendingReply, Reply


class ConnectionEnd(Protocol):
    """The end of a connection. Each added callback is notified once, at once if the connection has already ended."""

    def add(self, observer: Callable[[], None], /) -> None: ...

    def remove(self, observer: Callable[[], None], /) -> None: ...


class ServedConnection(Protocol):
    """The part of a request's connection that handlers may read and change."""

    state: object
    """The state of the handlers: a ClientSoftware once the client has sent it, else None."""
    principal: Principal
    """The principal of the client: anonymous until the client has authenticated."""
    throttle_s: float
    """Seconds to throttle the client, set by handlers when the client is over a quota.

    After the pending response is sent, the connection is neither read nor answered for this time (KIP-219).
    """
    heavy_s: float
    """Time for which the last long request kept the event loop busy, in seconds; handlers count their time slices.

    Among connections that wait for a time slice, those with a short time are served first.
    """

    @property
    def id(self) -> int:
        """Return the number of the connection, unique in the life of this process."""
        ...

    @property
    def listener(self) -> str: ...

    @property
    def peer(self) -> tuple[str, int]:
        """Return the address and port of the client."""
        ...

    @property
    def has_unread(self) -> bool:
        """Return whether bytes of the client wait only because this process is busy.

        Otherwise the client's handler would have received them by now. The check takes a system call.
        """
        ...

    @property
    def closed(self) -> ConnectionEnd:
        """Return the end of the connection, for objects that keep state for this client beyond a call."""
        ...

    def keep_frame(self, frame: memoryview, /) -> memoryview:
        """Return the frame's bytes in memory that stays valid until the reply or `release_frame`.

        A handler calls this during its own call, if it reads the frame after the call. A large frame is not copied: its
        memory counts as memory of requests until then.
        """
        ...

    def release_frame(self, copied_bytes: int = 0, /) -> None:
        """Release the kept frame, which is not read any more. A second call does nothing.

        `copied_bytes` of the request, which the handler has copied, count as memory of requests instead, until the
        reply or the next call.
        """
        ...

    def push(self, frame: bytes, /) -> bool:
        """Send a whole frame, size field included, that is not a response. Return False if the connection has ended."""
        ...

    def refuse(self, kind: str, text: str, *, ends: bool = True) -> None:
        """End the connection, counted by `kind` and logged now and then. With `ends` False the connection continues."""
        ...


class AuthenticatingConnection(ServedConnection, Protocol):
    """A connection whose client has to authenticate: until then, another handler gets its frames."""

    handler: "FrameHandler"
    """The handler of the next frames."""

    def limit_requests(self, bytes_max: int | None, /) -> None:
        """Set the size of the largest frame, without its size field; None sets the usual limit."""
        ...

    def refuse_in(self, delay_s: float, kind: str, text: str) -> None:
        """End the connection as `refuse` does, but after `delay_s`, so that the client can read the last reply."""
        ...


Authenticate = Callable[[AuthenticatingConnection], None]
"""A function that prepares a new connection whose client has to authenticate."""


class FrameHandler(Protocol):
    """Answers one frame, now or later.

    The frame, without its size field, is valid during the call only. A handler copies what it keeps, or keeps the frame
    (`ServedConnection.keep_frame`), and its reply must not point into it.
    """

    def __call__(self, frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        """Answer the request in a frame. Raises ProtocolError to end the connection."""
        ...
