"""An attempt to connect: its recorded course, and that of the replay. Pure; times are microseconds."""

from enum import StrEnum
from sys import intern
from typing import NamedTuple

ABANDONED = "its client closed it before it was accepted"
BACKLOG = "it waited in a slot that a new limit removed"
"""Reasons for which a client leaves the line without a decision of the limiter, as brokers record them."""


class RecordedEvent(NamedTuple):
    """A recorded event of a connection: a row of the table connection.

    `arrived_us` and `decided_us` are of the monotonic clock of the broker's host.
    """

    seq: int
    event: str
    listener: str
    client_ip: str
    client_port: int | None
    connection_id: int | None
    client_id: str | None
    reason: str | None
    limit_quota: str | None
    limit_key: str | None
    limit_entity: str | None
    held_us: int | None
    arrived_us: int | None
    decided_us: int
    wall_us: int


class Limit(NamedTuple):
    """A limit that a connection has met. `quota` is namespace/name of its ConnectionQuota, if known."""

    key: str
    entity: str | None = None
    quota: str | None = None


class Outcome(StrEnum):
    """The outcome of a client's attempt to connect, such as accepted or refused."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    """A limit refused the connection."""
    LEFT = "left"
    """The connection ended in the line: its client hung up, or the broker closed it for another reason than a limit."""
    WAITING = "waiting"
    """The connection still waited when the log ended."""


class Course(NamedTuple):
    """The course of an attempt: its outcome with the time, and the limit that refused it, or else first delayed it."""

    outcome: Outcome
    at_us: int
    limit: Limit | None = None


class Attempt:
    """A connection that a client tried to open, with its recorded course and that of the replay.

    `first_us` and `first_seq` are those of its first event, `last_seq` that of its outcome. `deadline_us` is when a
    rate allows it according to its first event; None if it did not wait for a rate. `open_us` is how long it was open;
    None if it was open when the log ended. `replayed` is None until the replay has decided.
    """

    __slots__ = (
        "address",
        "arrived_us",
        "close_seq",
        "deadline_us",
        "first_seq",
        "first_us",
        "is_by_client",
        "is_taken",
        "last_seq",
        "listener",
        "open_us",
        "recorded",
        "replayed",
        "wall_us",
    )

    def __init__(self, event: RecordedEvent) -> None:
        self.listener = event.listener
        self.address = intern(event.client_ip)
        self.first_us = event.decided_us
        self.arrived_us = event.decided_us if event.arrived_us is None else event.arrived_us
        self.wall_us = event.wall_us - event.decided_us + self.arrived_us
        """Time of the arrival since 1970, by the wall clock."""
        self.first_seq = self.last_seq = self.close_seq = event.seq
        self.deadline_us: int | None = None
        if event.event == "limited" and event.held_us is not None:
            self.deadline_us = event.decided_us // 1000 * 1000 + event.held_us
        self.open_us: int | None = None
        self.is_taken = False
        """Whether a replay has received it, perhaps before its outcome was read."""
        self.is_by_client = False
        """Whether the connection left the line because its client hung up."""
        self.recorded = Course(Outcome.WAITING, event.decided_us, limit_of(event))
        self.replayed: Course | None = None

    @property
    def was_asked(self) -> bool:
        """Return whether the limiter has decided about the attempt.

        The limiter never decides about a client that hangs up while another client waits before it.
        """
        return self.recorded.outcome is not Outcome.LEFT or self.first_seq < self.last_seq


def limit_of(event: RecordedEvent) -> Limit | None:
    """Return the limit that the connection has met, None without one."""
    if event.limit_key is None:
        return None
    return Limit(event.limit_key, event.limit_entity, event.limit_quota)
