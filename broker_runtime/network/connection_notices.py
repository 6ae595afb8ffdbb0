"""What can be told of a connection while it lives, and of one that is not let in. Pure."""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from broker_runtime.network.connection_states import ConnectionEvent


class NoticeKind(StrEnum):
    """What has happened."""

    ACCEPTED = "accepted"
    """It is let in."""
    LIMITED = "limited"
    """It has to wait for `limit`, `delay_s` long or, where that is None, until another one has gone."""
    REFUSED = "refused"
    """It is not let in; `delay_s` is how long it is held open, unread, before it is closed."""
    CLOSED = "closed"
    """It has ended; `reason` says why."""


class ConnectionNotice(NamedTuple):
    """`connection_id` is None until a connection is let in; `limit` is the configuration key that it has met."""

    kind: NoticeKind
    listener: str
    client_address: str
    client_port: int
    connection_id: int | None = None
    limit: str | None = None
    delay_s: float | None = None
    reason: str | None = None
    open_s: float | None = None
    """Of one that has ended: how long it lived."""


BY_CLIENT = "closed by the client"
BY_BROKER = "closed by the broker"
EVICTED = "evicted for a newer connection"
IDLE = "idle"
LISTENER_CLOSED = "its listener is closed"
STOPPED = "the broker stops"
BACKLOG = "it waited beyond the places that a limit leaves"
ABANDONED = "its client closed it before it was accepted"

_REASONS = {
    ConnectionEvent.END_OF_STREAM: BY_CLIENT,
    ConnectionEvent.LOST: "lost",
    ConnectionEvent.FINISH: STOPPED,
}


def reason_of(event: ConnectionEvent | None) -> str:
    """Why a connection has ended, as far as the event that ended it says."""
    return BY_BROKER if event is None else _REASONS.get(event, BY_BROKER)


TellOfConnection = Callable[[ConnectionNotice], None]
"""Must not raise, or take long."""


class ConnectionNotices:
    """Where the notices of one server go: `tell` is None where nobody wants them."""

    __slots__ = ("tell",)

    def __init__(self) -> None:
        self.tell: TellOfConnection | None = None

    def observe(self, tell: TellOfConnection | None) -> None:
        """Tell `tell` of every notice from here on, or nobody."""
        self.tell = tell
