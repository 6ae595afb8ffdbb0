"""The interface between connections (`network`) and request handlers (`apis`)."""

from collections.abc import Callable
from typing import Protocol

from broker_runtime.security.principal import Principal
from broker_runtime.wire.reply import PendingReply, Reply


class ConnectionEnd(Protocol):
    """Notifies each observer once of the end of a connection, at once if it has ended already."""

    def add(self, observer: Callable[[], None], /) -> None: ...

    def remove(self, observer: Callable[[], None], /) -> None: ...


class ServedConnection(Protocol):
    """The part of a request's connection that handlers may read and change."""

    state: object
    """State of the handlers: a ClientSoftware once the client has sent it, else None."""
    principal: Principal
    """Who the client is: anonymous until it has authenticated."""
    throttle_s: float
    """Set by handlers when the client is over a quota, in seconds.

    After the pending response is sent, the connection is neither read nor answered for this time (KIP-219).
    """

    @property
    def id(self) -> int:
        """Number of the connection, unique in the life of this process."""
        ...

    @property
    def listener(self) -> str: ...

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the client."""
        ...

    @property
    def has_unread(self) -> bool:
        """Whether the client has sent bytes that its handler would have received by now if this process were not busy.

        It takes a system call.
        """
        ...

    @property
    def closed(self) -> ConnectionEnd:
        """End of the connection, for objects that keep state for this client beyond a call."""
        ...

    def keep_frame(self, frame: memoryview, /) -> memoryview:
        """Return the same bytes, valid until the reply or `release_frame`, for a handler that reads on after its call.

        To be called during that call only. A large frame is not copied, and counts as memory of requests until then.
        """
        ...

    def release_frame(self) -> None:
        """Release the kept frame, which is not read any more. A second call does nothing."""
        ...

    def push(self, frame: bytes, /) -> bool:
        """Send a whole frame, size field included, that is not a response; False when the connection has ended."""
        ...

    def refuse(self, kind: str, text: str, *, ends: bool = True) -> None:
        """End the connection, counted by `kind` and logged now and then; with `ends` False it continues."""
        ...


class AuthenticatingConnection(ServedConnection, Protocol):
    """A connection whose client has to authenticate: its frames go to another handler until it has done so."""

    handler: "FrameHandler"
    """Handles the next frames."""

    def limit_requests(self, bytes_max: int | None, /) -> None:
        """Set the size of the largest frame, without its size field; None sets the usual one."""
        ...

    def refuse_in(self, delay_s: float, kind: str, text: str) -> None:
        """End the connection as `refuse` does, but in `delay_s`, so that the client can read the last reply."""
        ...


Authenticate = Callable[[AuthenticatingConnection], None]
"""Prepares a new connection, whose client has to authenticate."""


class FrameHandler(Protocol):
    """Answers one frame, now or later.

    The frame, without its size field, is valid during the call only. A handler copies what it keeps, or keeps the frame
    (`ServedConnection.keep_frame`), and its reply must not point into it.
    """

    def __call__(self, frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        """Answer the frame. A ProtocolError ends the connection."""
        ...
