"""The clients of one listener in the order in which its broker asks the limiter about them. Pure."""

from collections import deque

from audit_pipeline.what_if.attempts import Attempt, Limit

LATENESS_US = 100_000
"""Microseconds by which a broker asks at most later than it could: busy loops, timers, and intervals of checks."""
TIMER_US = 1_000
"""Microseconds that a broker waits more than the limiter asks for, because its timers have milliseconds."""


class ListenerLine:
    """The clients that wait at one listener: the first waits for a limit, the others wait behind it.

    `waiting` is the first client, which the limiter delays until `deadline_us` at least, and `limit` is the limit that
    it waits for. `number` changes with each wait, also if the next client takes over the wait of the first.
    """

    __slots__ = ("behind", "deadline_us", "is_as_recorded", "limit", "name", "number", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.behind: deque[Attempt] = deque()
        self.waiting: Attempt | None = None
        self.deadline_us = 0
        self.is_as_recorded = False
        """Whether the log has the same deadline of this wait."""
        self.number = 0
        self.limit: Limit | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether a client that comes now has to line up."""
        return self.waiting is not None or bool(self.behind)

    def begin_wait(self, attempt: Attempt, deadline_us: int | None, limit: Limit | None) -> None:
        """Let a client at the listener wait because of a connection limit.

        It waits until `deadline_us` if the limit is a rate.
        """
        self.waiting, self.deadline_us, self.limit = attempt, deadline_us or 0, limit
        self.is_as_recorded = attempt.deadline_us == deadline_us
        self.number += 1

    def pass_on(self) -> Attempt:
        """Let the next client at the listener wait instead of the present one, and return it."""
        self.waiting = heir = self.behind.popleft()
        self.number += 1
        return heir

    def end_wait(self) -> None:
        self.waiting = self.limit = None
        self.number += 1

    def remove(self, attempt: Attempt) -> bool:
        """Remove a client from behind the waiting one; return whether it was the next."""
        was_next = self.behind[0] is attempt
        self.behind.remove(attempt)
        return was_next


def asked_us(possible_us: int, recorded_us: int, otherwise_us: int) -> int:
    """Return the time at which the replayed broker asks the limiter about a client, in microseconds.

    The broker can ask from `possible_us` on. If the recorded broker asked then, or at most LATENESS_US later, the
    result is `recorded_us`; otherwise it is `otherwise_us`.
    """
    return recorded_us if 0 <= recorded_us - possible_us <= LATENESS_US else otherwise_us
