"""Notices about a connection during its life, and about one that is not admitted. Pure."""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from broker_runtime.network.connection.connection_states import ConnectionEvent
from connection_limits.settings import LimitReference


class NoticeKind(StrEnum):
    """The event that a notice reports."""

    ACCEPTED = "accepted"
    """The connection is admitted."""
    LIMITED = "limited"
    """The connection waits for `limit`: for `delay_s`, or until another connection ends if that is None."""
    REFUSED = "refused"
    """The connection is not admitted; it is kept open, unread, for `delay_s` before it is closed."""
    CLOSED = "closed"
    """The connection has ended; `reason` says why."""


class ConnectionNotice(NamedTuple):
    """A notice. `connection_id` is None until a connection is admitted; `limit` is the name of the limit that it met.

    `held_by` is that limit with its value. `listener_rate` is how many new connections a second the listener accepted
    at most when this one was accepted, delayed or refused; None without a limit.
    """

    kind: NoticeKind
    listener: str
    client_address: str
    client_port: int
    connection_id: int | None = None
    limit: str | None = None
    delay_s: float | None = None
    reason: str | None = None
    open_s: float | None = None
    """Lifetime of an ended connection, in seconds."""
    held_by: LimitReference | None = None
    listener_rate: int | None = None


BY_CLIENT = "closed by the client"
BY_BROKER = "closed by the broker"
EVICTED = "evicted for a newer connection"
IDLE = "idle"
LISTENER_CLOSED = "its listener is closed"
STOPPED = "the broker stops"
BACKLOG = "it waited in a slot that a new limit removed"
ABANDONED = "its client closed it before it was accepted"

_REASONS = {
    ConnectionEvent.END_OF_STREAM: BY_CLIENT,
    ConnectionEvent.LOST: "lost",
    ConnectionEvent.FINISH: STOPPED,
}


def reason_of(event: ConnectionEvent | None) -> str:
    """Return why a connection has ended, derived from the event that ended it."""
    return BY_BROKER if event is None else _REASONS.get(event, BY_BROKER)


TellOfConnection = Callable[[ConnectionNotice], None]
"""Receives notices. Must not raise, or take long."""


class ConnectionNotices:
    """Destination of one server's notices: `tell` is None if they are not observed."""

    __slots__ = ("tell",)

    def __init__(self) -> None:
        self.tell: TellOfConnection | None = None

    def observe(self, tell: TellOfConnection | None) -> None:
        """Send every notice from now on to `tell`; None sends them nowhere."""
        self.tell = tell
