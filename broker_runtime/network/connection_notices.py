"""What can be told of a connection while it lives, and of one that is not let in. Pure."""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple


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
