"""A bucket of bytes or of time: what its callers have used, as a rate over Kafka's windows. Pure."""

from math import floor

from connection_limits.rate import WindowedRate
from connection_limits.settings import UNLIMITED


class RecordedRate:
    """The units that the callers of a bucket have used in recent windows.

    The quota is an argument, because it may change at any time.
    """

    __slots__ = ("_forgotten_after_ms", "_rate", "throttle_ms_total")

    def __init__(self, num: int, window_ms: int, now_ms: int) -> None:
        self._rate = WindowedRate(num, window_ms, UNLIMITED, now_ms)
        self._forgotten_after_ms = num * window_ms
        self.throttle_ms_total = 0
        """Sum of the throttle times that callers of the bucket got, in milliseconds."""

    @property
    def last_ms(self) -> int:
        return self._rate.last_ms

    def is_as_new(self, now_ms: int) -> bool:
        return now_ms - self._rate.last_ms >= self._forgotten_after_ms

    def record(self, units: int, now_ms: int) -> None:
        """Record units of a client's use at this time. A negative number takes back some that were recorded."""
        self._rate.add(units, now_ms)

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return 0 up to `quota` units a second, else the milliseconds after which the rate is the quota again.

        The time is not limited.
        """
        span_ms = self._rate.span_ms(now_ms)
        excess = self._rate.total * 1000 - quota * span_ms
        # (rate - quota) / quota * span, with rate = total * 1000 / span.
        return floor(excess / quota + 0.5) if excess > 0 else 0

    def per_second(self, now_ms: int) -> float:
        return self._rate.measure(now_ms)
