"""The seam between a connection and what answers its requests: `network` has the one, `apis` the other."""

from collections.abc import Callable
from typing import Protocol

from broker_runtime.wire.reply import PendingReply, Reply


class ConnectionEnd(Protocol):
    """Tells of the end of a connection, each observer once; at once where it has ended already."""

    def add(self, observer: Callable[[], None], /) -> None: ...

    def remove(self, observer: Callable[[], None], /) -> None: ...


class ServedConnection(Protocol):
    """What handlers may know of the connection that a request came on, and do to it."""

    state: object
    """Belongs to the handlers: a ClientSoftware once the client has told it, else None."""
    throttle_s: float
    """For handlers: the client is over a quota, and once the answer that is being made has been sent it is neither read
    nor answered for so long (KIP-219)."""

    @property
    def id(self) -> int:
        """No other connection to this process has it, nor ever had."""
        ...

    @property
    def listener(self) -> str: ...

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the client."""
        ...

    @property
    def has_unread(self) -> bool:
        """Whether the client has sent what its handler would have seen by now, were this process not busy. It takes a
        system call."""
        ...

    @property
    def closed(self) -> ConnectionEnd:
        """For whoever keeps something for this client beyond a call."""
        ...

    def keep_frame(self, frame: memoryview, /) -> memoryview:
        """The same bytes, valid until the reply or `release_frame`: for a handler that reads on after its call. Only
        during the call. A large frame is not copied, and counts as memory of requests for as long."""
        ...

    def release_frame(self) -> None:
        """The kept frame is not read any more. A second call does nothing."""
        ...

    def push(self, frame: bytes, /) -> bool:
        """Send a whole frame, size field included, that answers nothing; False when the connection has ended."""
        ...

    def refuse(self, kind: str, text: str, *, ends: bool = True) -> None:
        """End the connection, counted by `kind` and logged now and then; without `ends` it goes on."""
        ...


class FrameHandler(Protocol):
    """Answers one frame, now or later.

    The frame, without its size field, is valid during the call only: a handler copies what it keeps, or has it kept
    (`ServedConnection.keep_frame`), and its reply must not point into it.
    """

    def __call__(self, frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        """ProtocolError ends the connection."""
        ...
