"""How long to wait before what has failed is tried again, and when to say so. Pure."""

from dataclasses import dataclass

_FIRST_S = 0.05
_DOUBLINGS_MAX = 16


@dataclass(slots=True)
class Backoff:
    """Of one thing that is tried again and again. Only what brought it further is a success."""

    max_s: float
    failures: int = 0
    """In a row."""
    problem: str | None = None
    """The last one that was worth saying."""

    def failed(self) -> float:
        """Seconds to wait: twice as many as the time before, up to `max_s`."""
        delay_s = min(_FIRST_S * (1 << min(self.failures, _DOUBLINGS_MAX)), self.max_s)
        self.failures += 1
        return delay_s

    def is_news(self, problem: str) -> bool:
        """Whether another problem, or none, was there before this one."""
        before, self.problem = self.problem, problem
        return before != problem

    def succeeded(self) -> bool:
        """Whether a problem is over that was said."""
        told, self.problem = self.problem, None
        self.failures = 0
        return told is not None
