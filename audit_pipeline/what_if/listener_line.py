"""The clients of one listener in the order in which its broker asks the limiter about them. Pure."""

from collections import deque

from audit_pipeline.what_if.attempts import Attempt, Limit

LATENESS_US = 100_000
"""A broker asks at most this much later than it could: busy loops, timers, and the interval of its checks."""
TIMER_US = 1_000
"""A broker's timers have milliseconds: it waits one more than the limiter asks for."""


class ListenerLine:
    """At most one client waits for a limit, and others behind it. Owns no decision.

    `waiting` is the client that the limiter delays until `deadline_us` at least. Each wait has another `number`, also
    that of a client that takes over the wait of another. `limit` is the one that it waits for.
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
        """Whether a client that comes now has to line up."""
        return self.waiting is not None or bool(self.behind)

    def begin_wait(self, attempt: Attempt, deadline_us: int | None, limit: Limit | None) -> None:
        """Let a client wait for a limit, until `deadline_us` if the limit is a rate."""
        self.waiting, self.deadline_us, self.limit = attempt, deadline_us or 0, limit
        self.is_as_recorded = attempt.deadline_us == deadline_us
        self.number += 1

    def pass_on(self) -> Attempt:
        """Let the next client take over the wait, and return it."""
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
    """Return when the broker asks about a client that it could ask about at `possible_us`.

    That is the recorded time if it is the same situation: the broker asked then, or soon afterwards.
    """
    return recorded_us if 0 <= recorded_us - possible_us <= LATENESS_US else otherwise_us
