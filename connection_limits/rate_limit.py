"""The rate limit of a broker or of a listener: fixed, or adapting. Pure; times are milliseconds."""

from importlib import import_module
from typing import TYPE_CHECKING

from connection_limits.rate import Meter, TokenBucket, meter
from connection_limits.settings import Objective, QuotaSettings

if TYPE_CHECKING:
    from connection_limits.adaptive.control import AdaptiveRate

_CONTROL = "connection_limits.adaptive.control"
"""Imported when the first rate adapts: most brokers have none (decision 45)."""
_SAVED_MS = 100
"""An adaptive rate admits at most the connections of this time at once.

The windowed rate would admit the connections of ten seconds at once, and delay established clients before the first
decision. After a cut it would admit none for ten seconds, until its window contains no earlier connections.
"""


class RateLimit:
    """Owns the meter of new connections, and the adaptive rate if the limit has an objective."""

    __slots__ = ("_metered_from_ms", "adaptive", "meter")

    def __init__(self, settings: QuotaSettings, limit: int, objective: Objective | None, now_ms: int) -> None:
        self.adaptive: AdaptiveRate | None = None
        self.meter: Meter = meter(settings, limit, now_ms)
        self._metered_from_ms = now_ms
        """Time at which the meter began to count."""
        self.configure(settings, limit, objective, now_ms)

    def configure(self, settings: QuotaSettings, limit: int, objective: Objective | None, now_ms: int) -> None:
        """Apply another limit, or another objective. A limit gets a new meter when it begins or ceases to adapt."""
        if objective is None:
            if self.adaptive is not None:
                self.adaptive = None
                self.meter = meter(settings, limit, now_ms)
                self._metered_from_ms = now_ms
        else:
            control = import_module(_CONTROL)
            bounds = control.Bounds(max(1, min(objective.min_rate, limit)), max(1, limit), objective.p99_ms)
            if self.adaptive is None:
                self.adaptive = control.AdaptiveRate(bounds, now_ms)
                window_ms = settings.window_ms
                self.meter = TokenBucket(settings.quota_window_num, window_ms, limit, now_ms, _SAVED_MS)
                self._metered_from_ms = now_ms
            else:
                self.adaptive.configure(bounds, now_ms)
            limit = self.adaptive.rate
        self.set_limit(limit, now_ms)

    @property
    def highest(self) -> int:
        """The limit, or the maximum of a rate that adapts."""
        return self.meter.limit if self.adaptive is None else self.adaptive.bounds.max_rate

    def unrecord(self, recorded_ms: int, now_ms: int) -> None:
        """Undo the recording of a connection at `recorded_ms`.

        Do nothing if a previous meter recorded it.
        """
        if recorded_ms >= self._metered_from_ms:
            self.meter.unrecord(now_ms)

    def set_limit(self, limit: int, now_ms: int) -> None:
        """Enforce `limit` from now on."""
        if limit != self.meter.limit:
            self.meter.set_limit(limit, now_ms)
