"""Notices about a connection during its life, and about one that is not admitted. Pure.

The `reason` of a notice is the kind of the ProtocolError that refused the client, as `quotas.refusals` counts it, or
else one of the constants below, or why the listener is paused. docs/reference/closed-connections.md explains all of
them, and tests/unit/test_closed_connections_page.py compares the page with the code.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from broker_runtime.network.connection.connection_states import ConnectionEvent
from connection_limits.settings import LimitReference


class NoticeKind(StrEnum):
    """The kind of a notice: the event that it reports."""

    ACCEPTED = "accepted"
    """The connection is admitted."""
    LIMITED = "limited"
    """The connection waits for `limit`: for `delay_s`, or, if `delay_s` is None, until another connection ends."""
    REFUSED = "refused"
    """The connection is not admitted. It is kept open, unread, for `delay_s` before it is closed."""
    CLOSED = "closed"
    """The connection has ended; `reason` says why."""


class ConnectionNotice(NamedTuple):
    """A notice about a connection.

    `connection_id` is None before its admission; `limit` is the name of the limit that it met.

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
    arrived_s: float | None = None
    """Time when the broker took the connection from the kernel, in seconds of the loop's clock."""
    decided_s: float | None = None
    """Time of the decision about the connection, or of its end, for the limiter."""


BY_CLIENT = "closed by the client"
BY_BROKER = "closed by the broker"
LOST = "lost"
EVICTED = "evicted for a newer connection"
IDLE = "idle"
LISTENER_CLOSED = "its listener is closed"
STOPPED = "the broker stops"
BACKLOG = "it waited in a slot that a new limit removed"
ABANDONED = "its client closed it before it was accepted"

_REASONS = {
    ConnectionEvent.END_OF_STREAM: BY_CLIENT,
    ConnectionEvent.LOST: LOST,
    ConnectionEvent.FINISH: STOPPED,
}


def reason_of(event: ConnectionEvent | None) -> str:
    """Return why a connection has ended, derived from the event that ended it."""
    return BY_BROKER if event is None else _REASONS.get(event, BY_BROKER)


OnNotice = Callable[[ConnectionNotice], None]
"""A function that receives notices of connections. It must not raise an error, or take long."""


class ConnectionNotices:
    """Passes notices about one server's connections to observers. `publish` is None while no observer wants them.

    Callers check `publish` first, so that a notice which no observer wants is not made.
    """

    __slots__ = ("publish",)

    def __init__(self) -> None:
        self.publish: OnNotice | None = None

    def observe(self, on_notice: OnNotice | None) -> None:
        """Pass every notice from now on to `on_notice`; None discards notices."""
        self.publish = on_notice
