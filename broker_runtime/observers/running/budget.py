"""How long an observer may block the event loop, and when a slow one is suspended. Pure.

Each call has a limit. Time beyond it adds to the observer's debt, which is forgiven slowly. An observer with too much
debt is suspended, each time for longer, until it has stayed within its budget for a while. Times are seconds.

An overloaded machine delays any observer. So a first late call adds no debt: it only starts the measurement of thread
usage for the next calls. A measured call counts with its CPU time, or with all its time if it waited voluntarily.
"""

from typing import NamedTuple

DEBT_MAX_S = 0.05
DEBT_MAX_ON_PROBATION_S = 0.01
"""Maximum debt of an observer after a suspension, in seconds: one call that sleeps causes the next suspension."""
FORGIVEN_SHARE = 0.01
"""Share of the elapsed time by which the debt falls: an observer may be late for a hundredth of the time."""
FIRST_SUSPENSION_S = 1.0
LONGEST_SUSPENSION_S = 300.0
PROBATION_S = 60.0
WATCHED_S = 10.0
"""Minimum time for which calls are measured after a late one, in seconds.

Measuring costs a microsecond for each call. The time is longer if the debt takes longer to fall to zero.
"""


class ThreadUsage(NamedTuple):
    """The usage of a thread so far: CPU time in seconds, and the number of voluntary waits."""

    cpu_s: float
    waits: int


class Budget:
    """The debt of one observer whose calls take too long.

    `limit_s` applies to one call; `resumes_s` is when it may be called again. Until `watched_until_s`, `late` needs the
    thread's usage before and after the call.
    """

    __slots__ = ("_backoff_s", "_debt_s", "_noted_s", "_probation_until_s", "limit_s", "resumes_s", "watched_until_s")

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.resumes_s = float("-inf")
        self._debt_s = 0.0
        self._noted_s = float("-inf")
        self._backoff_s = FIRST_SUSPENSION_S
        self._probation_until_s = float("-inf")
        self.watched_until_s = float("-inf")

    def late(
        self, spent_s: float, now_s: float, before: ThreadUsage | None = None, after: ThreadUsage | None = None
    ) -> float | None:
        """Account for a call over its limit; return the seconds of the suspension that follows, or None."""
        # Long enough even if calls are so rare that the next one would come after WATCHED_S.
        self.watched_until_s = now_s + max(WATCHED_S, spent_s / FORGIVEN_SHARE)
        if before is None or after is None:
            return None
        if after.waits == before.waits:
            spent_s = after.cpu_s - before.cpu_s
        return self._owed(spent_s, now_s) if spent_s > self.limit_s else None

    def _owed(self, spent_s: float, now_s: float) -> float | None:
        forgiven_s = (now_s - self._noted_s) * FORGIVEN_SHARE
        self._debt_s = max(0.0, self._debt_s - forgiven_s) + spent_s - self.limit_s
        self._noted_s = now_s
        on_probation = now_s < self._probation_until_s
        if self._debt_s <= (DEBT_MAX_ON_PROBATION_S if on_probation else DEBT_MAX_S):
            return None
        self._backoff_s = min(self._backoff_s * 2, LONGEST_SUSPENSION_S) if on_probation else FIRST_SUSPENSION_S
        self._debt_s = 0.0
        self.resumes_s = now_s + self._backoff_s
        self._probation_until_s = self.resumes_s + max(PROBATION_S, self._backoff_s)
        self.watched_until_s = self._probation_until_s
        return self._backoff_s
