"""Measure a rate, and compute the delay that restores its limit: Kafka's windowed rate and a token bucket. Pure.

The caller passes times in whole milliseconds. A `Meter` first counts and then judges, as Kafka does: the event that
exceeds the quota has been recorded (KIP-612; samples as in Kafka 3.8 and later).
"""

from math import ceil, floor
from typing import Protocol

from connection_limits.settings import UNLIMITED, QuotaSettings, Strategy


class Meter(Protocol):
    """One measured rate with its limit per second (`UNLIMITED` for none)."""

    limit: int
    last_ms: int

    def record(self, now_ms: int) -> None: ...

    def unrecord(self, now_ms: int) -> None:
        """Undo one recorded event, as if the refused connection had never come."""
        ...

    def measure(self, now_ms: int) -> float:
        """Return the rate in events per second."""
        ...

    def throttle_ms(self, now_ms: int) -> int:
        """Return 0 within the limit, else the milliseconds until the rate is back at the limit, at most one window."""
        ...

    def set_limit(self, limit: int, now_ms: int) -> None:
        """Change the limit of this rate of connections. Recorded events are kept."""
        ...


class WindowedRate:
    """Events summed over samples of one window each, divided by the time that the samples span.

    `_samples` is flat, oldest first: start, time of last event, sum, start, ... It contains at most num + 1 samples. A
    sample is dropped when nothing was recorded in it for num windows.
    """

    __slots__ = ("_num", "_samples", "_window_ms", "last_ms", "limit", "total")

    def __init__(self, num: int, window_ms: int, limit: int, now_ms: int) -> None:
        self.limit = limit
        self.last_ms = now_ms
        self._num = num
        self._window_ms = window_ms
        self._samples: list[int] = []
        self.total = 0
        """Sum of the samples, including those that `span_ms` would drop."""

    def record(self, now_ms: int) -> None:
        self.add(1, now_ms)

    def unrecord(self, now_ms: int) -> None:
        # Subtracts from the current sample, which after a wait is later than the event's: a sample may be negative.
        self.add(-1, now_ms)

    def add(self, value: int, now_ms: int) -> None:
        """Record `value` events, such as new connections, in the window. A negative value subtracts events."""
        samples = self._samples
        self.last_ms = now_ms
        self.total += value
        if samples and now_ms - samples[-3] < self._window_ms:
            samples[-2] = now_ms
            samples[-1] += value
            return
        if len(samples) > 3 * self._num:
            self.total -= samples[2]
            del samples[:3]
        samples += (now_ms, now_ms, value)

    def span_ms(self, now_ms: int) -> int:
        """Drop old samples, and return the milliseconds by which the sum of events is divided.

        The result is the time since the oldest sample began. It is at least `num` - 1 whole windows, as in Kafka, so
        that the first events do not count as a high rate.
        """
        samples, window_ms = self._samples, self._window_ms
        while samples and now_ms - samples[1] >= self._num * window_ms:
            self.total -= samples[2]
            del samples[:3]
        if not samples:
            samples += (now_ms, now_ms, 0)
        elapsed_ms = now_ms - samples[0]
        missing = self._num - 1 - elapsed_ms // window_ms
        if missing > 0:
            elapsed_ms += missing * window_ms
        return max(elapsed_ms, 1)

    def measure(self, now_ms: int) -> float:
        span_ms = self.span_ms(now_ms)
        return self.total * 1000 / span_ms

    def throttle_ms(self, now_ms: int) -> int:
        limit = self.limit
        if limit >= UNLIMITED:
            return 0
        span_ms = self.span_ms(now_ms)
        excess = self.total * 1000 - limit * span_ms
        if excess <= 0:
            return 0
        if limit == 0:
            return self._window_ms
        # (rate - limit) / limit * span, with rate = total * 1000 / span.
        return min(floor(excess / limit + 0.5), self._window_ms)

    def set_limit(self, limit: int, now_ms: int) -> None:
        self.limit = limit


class TokenBucket:
    """A rate limit as a token bucket. It allows no burst of ten windows, as the windowed rate does.

    The bucket stores at most the tokens of `saved_ms`, and at least one. The number of tokens may become negative, by
    one for each waiting connection: the wait earns these tokens. `measure` still returns the windowed rate.
    """

    __slots__ = ("_max_delay_ms", "_rate", "_refilled_ms", "_saved_ms", "_tokens", "limit")

    def __init__(self, num: int, window_ms: int, limit: int, now_ms: int, saved_ms: int = 1_000) -> None:
        self.limit = limit
        self._rate = WindowedRate(num, window_ms, UNLIMITED, now_ms)
        self._max_delay_ms = window_ms
        self._saved_ms = saved_ms
        self._tokens = self._most()
        self._refilled_ms = now_ms

    def _most(self) -> float:
        return max(1.0, self.limit * self._saved_ms / 1000)

    @property
    def last_ms(self) -> int:
        return self._rate.last_ms

    @last_ms.setter
    def last_ms(self, now_ms: int) -> None:
        self._rate.last_ms = now_ms

    def _refill(self, now_ms: int) -> None:
        earned = (now_ms - self._refilled_ms) * self.limit / 1000
        self._tokens = min(self._tokens + earned, self._most())
        self._refilled_ms = now_ms

    def record(self, now_ms: int) -> None:
        self._rate.record(now_ms)
        self._refill(now_ms)
        self._tokens -= 1

    def unrecord(self, now_ms: int) -> None:
        self._rate.unrecord(now_ms)
        self._tokens = min(self._tokens + 1, self._most())

    def measure(self, now_ms: int) -> float:
        return self._rate.measure(now_ms)

    def throttle_ms(self, now_ms: int) -> int:
        if self.limit >= UNLIMITED:
            return 0
        if self.limit == 0:
            return self._max_delay_ms
        self._refill(now_ms)
        # A refill in steps may end slightly below zero.
        if self._tokens >= -1e-9:
            return 0
        return min(ceil(-self._tokens * 1000 / self.limit - 1e-6), self._max_delay_ms)

    def set_limit(self, limit: int, now_ms: int) -> None:
        self._refill(now_ms)
        self.limit = limit
        self._tokens = min(self._tokens, self._most())


def meter(settings: QuotaSettings, limit: int, now_ms: int) -> Meter:
    """Return a new meter of the configured strategy."""
    kind = TokenBucket if settings.strategy is Strategy.TOKEN_BUCKET else WindowedRate
    return kind(settings.quota_window_num, settings.window_ms, limit, now_ms)
