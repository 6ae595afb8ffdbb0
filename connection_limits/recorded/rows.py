"""The rows that describe limits in force and their changes. Pure."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple, Protocol

from connection_limits import keys


class LimitEvent(StrEnum):
    """The event that a row reports about its limit."""

    KNOWN = "known"
    """The limit is in force: part of a report of all limits."""
    SET = "set"
    """The limit is in force from now on, or has another value."""
    REMOVED = "removed"
    """The limit is no longer in force."""
    OPENED = "opened"
    """The listener is open from now on. The exemption of the inter-broker listener depends on the others."""
    CLOSED = "closed"
    """The listener accepts no more."""
    COUNTED = "counted"
    """The open connections of changed connection groups are counted."""


class RateKind(StrEnum):
    """The way in which the value of a limit was chosen."""

    CONFIGURED = "configured"
    """The value of a configuration key or of a client quota."""
    ADAPTIVE = "adaptive"
    """The rate to which the broker has moved an adaptive limit."""
    SHARE = "share"
    """The share of this broker in a limit of the whole cluster."""


class LimitPlace(NamedTuple):
    """The place of a limit: its key, its client quota entity, and its listener; None for one that it does not have."""

    key: str
    entity: str | None = None
    listener: str | None = None


class LimitRow(NamedTuple):
    """A row in the order of the schema's columns, from `event` to `text`.

    `value` is a number, and `text` a value that is not one, such as a strategy, or the members of a connection group.
    """

    event: LimitEvent
    kind: RateKind | None
    key: str | None
    entity: str | None = None
    listener: str | None = None
    quota: str | None = None
    value: int | None = None
    text: str | None = None

    @property
    def place(self) -> LimitPlace:
        return LimitPlace(self.key or "", self.entity, self.listener)


class Rows(Protocol):
    """A known number of rows, which may be made when they are read."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[LimitRow]: ...


class LimitChange(NamedTuple):
    """Rows that came into force together, and when, in seconds of the monotonic clock."""

    at_s: float
    rows: Rows


TellOfLimits = Callable[[LimitChange], None]
"""Receives changes. Must not raise, or take long."""

LISTENER = "listener"
"""Key of a row about a listener itself."""
MEMBER = "member"
"""Key of a row about members of a connection group."""
IP = "ip="
GROUP = f"{keys.CONNECTION_GROUP}="


def ip_entity(ip: str | None) -> str:
    """Return the entity of an address, and of all addresses for None."""
    return IP + (keys.DEFAULT_ENTITY if ip is None else ip)


def group_entity(name: str) -> str:
    return GROUP + name


def quota_of_group(name: str) -> str | None:
    """Return the ConnectionQuota of a group: the operator gives the group its name, NAMESPACE/NAME."""
    return name if "/" in name else None
