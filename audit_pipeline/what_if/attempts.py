"""Attempts to connect, assembled from the recorded events of one boot of a broker. Pure; times are microseconds."""

from collections.abc import Iterable
from enum import StrEnum
from statistics import median_low
from sys import intern
from typing import NamedTuple

ABANDONED = "its client closed it before it was accepted"
BACKLOG = "it waited in a slot that a new limit removed"
"""Reasons for which a client leaves the line without a decision of the limiter, as brokers record them."""


class RecordedEvent(NamedTuple):
    """A row of the table connection. `arrived_us` and `decided_us` are of the monotonic clock of the broker's host."""

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
    """A limit that a connection has met: `quota` is namespace/name of its ConnectionQuota, if it is known."""

    key: str
    entity: str | None = None
    quota: str | None = None


class Outcome(StrEnum):
    """How an attempt ended."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    """A limit refused it."""
    LEFT = "left"
    """It ended in the line: its client hung up, or the broker closed it for another reason than a limit."""
    WAITING = "waiting"
    """It still waited when the log ended."""


class Course(NamedTuple):
    """The course of an attempt: its outcome with its time, and the limit that refused it, or else first delayed it."""

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
        self.is_by_client = False
        """Whether it left because its client hung up."""
        self.recorded = Course(Outcome.WAITING, event.decided_us, _limit_of(event))
        self.replayed: Course | None = None

    @property
    def was_asked(self) -> bool:
        """Whether the limiter has decided about it: a client that left the line from behind was never its concern."""
        return self.recorded.outcome is not Outcome.LEFT or self.first_seq < self.last_seq


class EarlyConnection(NamedTuple):
    """A connection that was open before the first event: only its end is recorded."""

    listener: str
    address: str
    closed_us: int
    seq: int


class Recording(NamedTuple):
    """The connections of one boot.

    `attempts` are in the order of their arrival. `unasked` counts connections that the broker closed for other reasons
    than limits without asking the limiter, for example while it was fenced. `client_ids` has the client ID that most
    connections of an address had.
    """

    attempts: list[Attempt]
    early: list[EarlyConnection]
    client_ids: dict[str, str]
    unasked: int
    began_us: int
    ended_us: int


def recording_of(events: Iterable[RecordedEvent]) -> Recording:
    """Assemble the attempts of one boot; `events` are in the order of their numbers."""
    found = _Assembly()
    for event in events:
        found.add(event)
    return found.finished()


_Place = tuple[str, str, int | None, int | None]


class _Assembly:
    """Owns the attempts that have not ended yet."""

    def __init__(self) -> None:
        self._attempts: list[Attempt] = []
        self._early: list[EarlyConnection] = []
        self._waiting: dict[_Place, Attempt] = {}
        self._open: dict[int | None, Attempt] = {}
        self._client_ids: dict[str, dict[str, int]] = {}
        self._unasked = 0
        self._began_us: int | None = None
        self._ended_us = 0

    def add(self, event: RecordedEvent) -> None:
        self._ended_us = max(self._ended_us, event.decided_us)
        if self._began_us is None:
            self._began_us = event.decided_us if event.arrived_us is None else event.arrived_us
        if event.event == "closed":
            self._closed(event)
            return
        place = event.listener, event.client_ip, event.client_port, event.arrived_us
        attempt = self._waiting.pop(place, None)
        is_new = attempt is None
        if attempt is None:
            attempt = Attempt(event)
        if event.event == "limited":
            self._waiting[place] = attempt
        elif not self._end(event, attempt, is_new=is_new):
            self._unasked += 1
            return
        if is_new:
            self._attempts.append(attempt)

    def _end(self, event: RecordedEvent, attempt: Attempt, *, is_new: bool) -> bool:
        """Record the outcome; return False if the connection was not to be admitted whatever the limits are."""
        outcome = Outcome.ACCEPTED
        if event.event == "refused":
            outcome = Outcome.REJECTED if event.limit_key is not None else Outcome.LEFT
        if outcome is Outcome.LEFT:
            if is_new and event.reason not in (ABANDONED, BACKLOG):
                return False
            attempt.is_by_client = event.reason == ABANDONED
        attempt.last_seq = attempt.close_seq = event.seq
        attempt.recorded = Course(outcome, event.decided_us, _limit_of(event) or attempt.recorded.limit)
        if outcome is Outcome.ACCEPTED:
            self._open[event.connection_id] = attempt
        return True

    def _closed(self, event: RecordedEvent) -> None:
        if event.client_id is not None:
            counts = self._client_ids.setdefault(event.client_ip, {})
            counts[event.client_id] = counts.get(event.client_id, 0) + 1
        attempt = self._open.pop(event.connection_id, None)
        if attempt is None:
            self._early.append(EarlyConnection(event.listener, event.client_ip, event.decided_us, event.seq))
            return
        attempt.open_us = event.decided_us - attempt.recorded.at_us
        attempt.close_seq = event.seq

    def finished(self) -> Recording:
        for attempt in self._waiting.values():
            # Its wait has ended later than the log, if at all.
            attempt.recorded = attempt.recorded._replace(at_us=self._ended_us + 1)
        self._attempts.sort(key=lambda attempt: (attempt.arrived_us, attempt.first_seq))
        _estimate_open_us(self._attempts)
        ids = {address: max(sorted(counts), key=counts.__getitem__) for address, counts in self._client_ids.items()}
        return Recording(self._attempts, self._early, ids, self._unasked, self._began_us or 0, self._ended_us)


def _limit_of(event: RecordedEvent) -> Limit | None:
    if event.limit_key is None:
        return None
    return Limit(event.limit_key, event.limit_entity, event.limit_quota)


def _estimate_open_us(attempts: Iterable[Attempt]) -> None:
    """Give refused connections the time that those of their address were open, or of their listener, in the middle.

    The log has no such time for them, and the replay may admit them.
    """
    of_address: dict[tuple[str, str], list[int]] = {}
    of_listener: dict[str, list[int]] = {}
    refused = []
    for attempt in attempts:
        if attempt.recorded.outcome is Outcome.REJECTED:
            refused.append(attempt)
        elif attempt.open_us is not None:
            of_address.setdefault((attempt.listener, attempt.address), []).append(attempt.open_us)
            of_listener.setdefault(attempt.listener, []).append(attempt.open_us)
    by_address = {place: median_low(times) for place, times in of_address.items()}
    by_listener = {listener: median_low(times) for listener, times in of_listener.items()}
    for attempt in refused:
        place = attempt.listener, attempt.address
        attempt.open_us = by_address.get(place, by_listener.get(attempt.listener, 0))
