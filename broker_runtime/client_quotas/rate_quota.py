"""Quotas of bytes and of request time: record first, then judge. Pure."""

from collections.abc import Callable

from broker_runtime.client_quotas.ladder import Caller, Entities, Limit
from broker_runtime.client_quotas.managed_quota import ManagedQuota, Windows
from broker_runtime.client_quotas.recorded_rate import RecordedRate

PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE = "producer_byte_rate", "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
_US_OF_A_PERCENT = 10_000
"""One percent of a thread is 10,000 microseconds a second."""


class RateQuota(ManagedQuota[RecordedRate]):
    """A quota of a rate, such as bytes a second.

    Callers without a limit have no bucket, and nothing is recorded for them.
    """

    def __init__(
        self,
        key: str,
        windows: Windows,
        entities: Callable[[], Entities],
        scale: float = 1,
        throttle_max_ms: int | None = None,
    ) -> None:
        """No throttle time is longer than `throttle_max_ms`, if it is given."""

        def new(now_ms: int) -> RecordedRate:
            return RecordedRate(windows.num, windows.size_ms, now_ms)

        super().__init__(key, windows, entities, new, scale)
        self._throttle_max_ms = throttle_max_ms

    def record(self, caller: Caller, units: int, now_ms: int) -> int:
        """Record units for a caller, and return the throttle time in milliseconds; 0 within the quota."""
        limit = self.limit(caller)
        if limit is None:
            return 0
        meter = self.buckets.at(limit.bucket, now_ms)
        meter.record(units, now_ms)
        return self._throttle_ms(meter, limit, now_ms)

    def throttle_ms(self, caller: Caller, now_ms: int) -> int:
        """Return the throttle time for the units recorded before, in milliseconds."""
        limit = self.limit(caller)
        meter = None if limit is None else self.buckets.used(limit.bucket)
        return 0 if limit is None or meter is None else self._throttle_ms(meter, limit, now_ms)

    def correct(self, caller: Caller, units: int, now_ms: int) -> None:
        """Record units of a client's use, without a throttle time.

        A negative number takes back some that were recorded.
        """
        limit = self.limit(caller)
        if limit is not None:
            self.buckets.at(limit.bucket, now_ms).record(units, now_ms)

    def note_throttled(self, caller: Caller, throttle_ms: int) -> None:
        """Count a throttling of the caller because of this quota."""
        limit = self.limit(caller)
        meter = None if limit is None else self.buckets.used(limit.bucket)
        if limit is not None and meter is not None:
            self.count(meter, limit, throttle_ms)

    def window_units(self, caller: Caller) -> int | None:
        """Return the units that a caller may use in all windows of a rate together; None without a limit.

        A single answer must not be larger: its throttle time would never be 0.
        """
        limit = self.limit(caller)
        if limit is None:
            return None
        return int(limit.quota * (self.windows.num - 1) * self.windows.size_ms / 1000)

    def _throttle_ms(self, meter: RecordedRate, limit: Limit, now_ms: int) -> int:
        throttle_ms = meter.throttle_ms(limit.quota, now_ms)
        if self._throttle_max_ms is not None:
            return min(throttle_ms, self._throttle_max_ms)
        if throttle_ms and self.buckets.is_shared(meter):
            # What other callers have used must not throttle this one for longer than it is remembered.
            return min(throttle_ms, self.windows.num * self.windows.size_ms)
        return throttle_ms


def produce_quota(windows: Windows, entities: Callable[[], Entities]) -> RateQuota:
    """Return the quota of bytes of Produce requests."""
    return RateQuota(PRODUCER_BYTE_RATE, windows, entities)


def fetch_quota(windows: Windows, entities: Callable[[], Entities]) -> RateQuota:
    """Return the quota of bytes of Fetch answers."""
    return RateQuota(CONSUMER_BYTE_RATE, windows, entities)


def request_quota(windows: Windows, entities: Callable[[], Entities]) -> RateQuota:
    """Return the quota of request time (KIP-124). Its units are microseconds; a throttle lasts at most one window."""
    return RateQuota(REQUEST_PERCENTAGE, windows, entities, _US_OF_A_PERCENT, windows.size_ms)
