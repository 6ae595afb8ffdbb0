"""How long an observer may hold the event loop, and what becomes of one that takes longer. Pure.

Each call has a limit. What a call takes beyond it is owed, and forgiven slowly. Who owes too much is suspended, each
time for longer, until it has behaved for a while. Times are seconds.

A machine that has too little time makes the best observer late. So the first late call only makes the next ones be
looked at closely: what counts of them is the time that they used the processor, and all of it if they chose to wait.
"""

from typing import NamedTuple

DEBT_MAX_S = 0.05
DEBT_MAX_ON_PROBATION_S = 0.01
"""Of one that was suspended: a call that sleeps is the only one."""
FORGIVEN_SHARE = 0.01
"""Of the time that passes: an observer may be late for a hundredth of it."""
FIRST_SUSPENSION_S = 1.0
LONGEST_SUSPENSION_S = 300.0
PROBATION_S = 60.0
WATCHED_S = 10.0
"""How long calls are looked at closely after one that was late, or until what it took would be forgiven: that costs a
microsecond each.
"""


class ThreadUsage(NamedTuple):
    """Of the thread so far: seconds of the processor, and how often it has waited of its own accord."""

    cpu_s: float
    waits: int


class Budget:
    """Owns what one observer owes. `limit_s` is that of one call; `resumes_s` is when it may be called again.

    Until `watched_until_s` its calls are to be told with the thread's usage before and after them.
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
        """A call has taken `spent_s`, over its limit: for how long the observer is suspended now, None if it is not."""
        # Also when calls are so far between that the next one would come when nobody looks any more.
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
