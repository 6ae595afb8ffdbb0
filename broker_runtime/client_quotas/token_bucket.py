"""A bucket of tokens for changes of topics (KIP-599). Pure."""


class Tokens:
    """Tokens that refill by the quota per second, up to a burst of `burst_s` seconds. The number may become negative.

    A new bucket is full. The quota is an argument, because it may change at any time; the time since the last call
    counts with the new quota, as in Apache Kafka.
    """

    __slots__ = ("_burst_s", "_full_at_ms", "_refilled_ms", "_tokens", "last_ms", "throttle_ms_total")

    def __init__(self, burst_s: float, now_ms: int) -> None:
        self._burst_s = burst_s
        self._tokens: float | None = None
        """The tokens at the last change; None while the bucket is full and was never used."""
        self._refilled_ms = self._full_at_ms = now_ms
        self.last_ms = now_ms
        self.throttle_ms_total = 0
        """Sum of the throttle times that callers of the bucket got, in milliseconds."""

    def is_as_new(self, now_ms: int) -> bool:
        return now_ms >= self._full_at_ms

    def left(self, quota: float, now_ms: int) -> float:
        """Return the number of tokens that are left in the bucket now."""
        burst = quota * self._burst_s
        if self._tokens is None:
            tokens = burst
        else:
            tokens = min(burst, self._tokens + quota * (now_ms - self._refilled_ms) / 1000)
        self._tokens, self._refilled_ms = tokens, now_ms
        return tokens

    def take(self, count: int, quota: float, now_ms: int) -> None:
        """Take tokens, even more than there are."""
        tokens = self._tokens = self.left(quota, now_ms) - count
        self.last_ms = now_ms
        self._full_at_ms = now_ms + int((quota * self._burst_s - tokens) / quota * 1000) + 1

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return the time until the number of tokens is not negative, in milliseconds."""
        left = self.left(quota, now_ms)
        return 0 if left >= 0 else int(-left / quota * 1000 + 0.5)
