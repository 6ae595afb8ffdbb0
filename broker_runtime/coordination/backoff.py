"""Exponential backoff between retries, and whether a failure is worth logging. Pure."""

from dataclasses import dataclass

_FIRST_S = 0.05
_DOUBLINGS_MAX = 16


@dataclass(slots=True)
class Backoff:
    """The growing delays between attempts of one operation that is retried.

    Only an attempt that made progress counts as a success.
    """

    max_s: float
    failures: int = 0
    """Number of consecutive failures since the last success."""
    problem: str | None = None
    """The last problem that was reported."""

    def failed(self) -> float:
        """Record a failed attempt of the operation.

        Returns the seconds to wait: twice the previous delay, at most `max_s`.
        """
        delay_s = min(_FIRST_S * (1 << min(self.failures, _DOUBLINGS_MAX)), self.max_s)
        self.failures += 1
        return delay_s

    def is_news(self, problem: str) -> bool:
        """Record a problem of the operation. Returns whether it differs from the previous one, or there was none."""
        before, self.problem = self.problem, problem
        return before != problem

    def succeeded(self) -> bool:
        """Record a successful attempt of the operation. Returns whether it ends a problem that was reported."""
        told, self.problem = self.problem, None
        self.failures = 0
        return told is not None
