"""Small running figures that the quotas keep: average throttle time, share of time blocked. Pure.

The caller passes times in whole milliseconds. Both follow Kafka: throttle averages cover 2 x 30 s samples, and
AcceptorBlockedPercent is a fraction from 0 to 1.
"""

from math import nan


class ThrottleAverage:
    """Average of the non-zero delays of the last one to two half-minutes; NaN when there were none."""

    __slots__ = ("_current", "_previous", "_started_ms")

    SAMPLE_MS = 30_000

    def __init__(self, now_ms: int) -> None:
        self._current = (0, 0)
        self._previous = (0, 0)
        self._started_ms = now_ms

    def _roll(self, now_ms: int) -> None:
        elapsed_ms = now_ms - self._started_ms
        if elapsed_ms < self.SAMPLE_MS:
            return
        self._previous = self._current if elapsed_ms < 2 * self.SAMPLE_MS else (0, 0)
        self._current = (0, 0)
        self._started_ms = now_ms

    def record(self, delay_ms: int, now_ms: int) -> None:
        self._roll(now_ms)
        total_ms, count = self._current
        self._current = (total_ms + delay_ms, count + 1)

    def measure(self, now_ms: int) -> float:
        self._roll(now_ms)
        count = self._current[1] + self._previous[1]
        return (self._current[0] + self._previous[0]) / count if count else nan


class BlockedTime:
    """The time that an acceptor was blocked.

    It is measured in total, and as a share of the last ten whole seconds and the current one.
    """

    __slots__ = ("_seconds", "_since_ms", "_started_ms", "_total_ms")

    WINDOW_S = 10

    def __init__(self, now_ms: int) -> None:
        self._started_ms = now_ms
        self._since_ms: int | None = None
        self._total_ms = 0
        self._seconds: dict[int, int] = {}

    def begin(self, now_ms: int) -> None:
        self._since_ms = now_ms

    def end(self, now_ms: int) -> None:
        if self._since_ms is None:
            return
        start_ms, self._since_ms = self._since_ms, None
        self._total_ms += now_ms - start_ms
        self._spread(start_ms, now_ms)

    def _spread(self, start_ms: int, end_ms: int) -> None:
        """Add the blocked milliseconds to each second that the recent window can still cover."""
        position_ms = max(start_ms, end_ms - (self.WINDOW_S + 1) * 1000)
        while position_ms < end_ms:
            second = position_ms // 1000
            upto_ms = min(end_ms, (second + 1) * 1000)
            self._seconds[second] = self._seconds.get(second, 0) + upto_ms - position_ms
            position_ms = upto_ms
        oldest = end_ms // 1000 - self.WINDOW_S
        for second in [s for s in self._seconds if s < oldest]:
            del self._seconds[second]

    def _settle(self, now_ms: int) -> None:
        """Count a wait in progress up to now."""
        if self._since_ms is not None and now_ms > self._since_ms:
            self.end(now_ms)
            self.begin(now_ms)

    def total_s(self, now_ms: int) -> float:
        self._settle(now_ms)
        return self._total_ms / 1000

    def fraction(self, now_ms: int) -> float:
        """Return the blocked share from 0 to 1, over the recent window or the time since start if that is shorter."""
        self._settle(now_ms)
        first = now_ms // 1000 - self.WINDOW_S
        blocked_ms = sum(ms for second, ms in self._seconds.items() if second >= first)
        span_ms = now_ms - max(first * 1000, self._started_ms)
        return min(blocked_ms / span_ms, 1.0) if span_ms > 0 else 0.0
