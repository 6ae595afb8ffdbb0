"""The rate limit of a broker or of a listener: fixed, adapting, or a share. Pure; times are milliseconds."""

from importlib import import_module
from typing import TYPE_CHECKING

from connection_limits.rate import Meter, TokenBucket, meter
from connection_limits.settings import UNLIMITED, Objective, QuotaSettings

if TYPE_CHECKING:
    from connection_limits.adaptive.control import AdaptiveRate
    from connection_limits.cluster.share_meter import ShareMeter

_CONTROL = "connection_limits.adaptive.control"
"""Imported when the first rate adapts: most brokers have none (decision 45)."""
_SHARE_METER = "connection_limits.cluster.share_meter"
"""Imported when the first rate is one of the cluster."""
_SAVED_MS = 100
"""An adaptive rate admits at most the connections of this time at once.

The windowed rate would admit the connections of ten seconds at once, and delay established clients before the first
decision. After a cut it would admit none for ten seconds, until its window contains no earlier connections.
"""


def share_meter(settings: QuotaSettings, limit: int, now_ms: int, *, rejects: bool = False) -> "ShareMeter":
    """Return a new meter of a share of `limit`, which is a rate of the cluster; the share is 0.

    `rejects`: a connection over the share is rejected; otherwise it waits.
    """
    made: ShareMeter = import_module(_SHARE_METER).ShareMeter(
        settings.quota_window_num, settings.window_ms, limit, now_ms, rejects=rejects
    )
    return made


class RateLimit:
    """The limit on new connections: its meter, with the adaptive rate or the share of a rate of the cluster, if any."""

    __slots__ = ("_metered_from_ms", "adaptive", "meter", "share")

    def __init__(
        self,
        settings: QuotaSettings,
        limit: int,
        objective: Objective | None,
        now_ms: int,
        *,
        is_cluster_wide: bool = False,
    ) -> None:
        self.adaptive: AdaptiveRate | None = None
        self.share: ShareMeter | None = None
        self.meter: Meter = meter(settings, limit, now_ms)
        self._metered_from_ms = now_ms
        """Time at which the meter began to count."""
        self.configure(settings, limit, objective, now_ms, is_cluster_wide=is_cluster_wide)

    def configure(
        self,
        settings: QuotaSettings,
        limit: int,
        objective: Objective | None,
        now_ms: int,
        *,
        is_cluster_wide: bool = False,
    ) -> None:
        """Use another limit for this rate, or another objective or scope.

        A limit gets a new meter when it begins or ceases to adapt, or to be one of the cluster.
        """
        if objective is None:
            if self.adaptive is not None:
                self.adaptive = None
                self._count_with(meter(settings, limit, now_ms), now_ms)
        else:
            control = import_module(_CONTROL)
            bounds = control.Bounds(max(1, min(objective.min_rate, limit)), max(1, limit), objective.p99_ms)
            if self.adaptive is None:
                self.adaptive = control.AdaptiveRate(bounds, now_ms)
                window_ms = settings.window_ms
                self._count_with(TokenBucket(settings.quota_window_num, window_ms, limit, now_ms, _SAVED_MS), now_ms)
            else:
                self.adaptive.configure(bounds, now_ms)
            limit = self.adaptive.rate
        if is_cluster_wide and objective is None and limit < UNLIMITED:
            if self.share is None:
                self.share = share_meter(settings, limit, now_ms)
                self._count_with(self.share, now_ms)
        elif self.share is not None:
            self.share = None
            if self.adaptive is None:
                self._count_with(meter(settings, limit, now_ms), now_ms)
        self.set_limit(limit, now_ms)

    def _count_with(self, new: Meter, now_ms: int) -> None:
        self.meter = new
        self._metered_from_ms = now_ms

    @property
    def highest(self) -> int:
        """Return the limit, or the maximum of a rate that adapts, or the rate of all brokers together."""
        return self.meter.limit if self.adaptive is None else self.adaptive.bounds.max_rate

    @property
    def accepted_per_s(self) -> int:
        """New connections a second for which clients may wait: of a share, what this broker may expect."""
        return self.meter.limit if self.share is None else self.share.expected_per_s

    def unrecord(self, recorded_ms: int, now_ms: int) -> None:
        """Undo the recording of a connection at `recorded_ms`.

        Do nothing if a previous meter recorded it.
        """
        if recorded_ms >= self._metered_from_ms:
            self.meter.unrecord(now_ms)

    def move_to(self, rate: int, now_ms: int) -> None:
        """Enforce a rate to which another limiter has moved: that of a broker, in a replay."""
        if self.adaptive is not None:
            self.adaptive.move_to(rate, now_ms)
        self.set_limit(rate, now_ms)

    def set_limit(self, limit: int, now_ms: int) -> None:
        """Enforce the limit `limit` from now on."""
        if limit != self.meter.limit:
            self.meter.set_limit(limit, now_ms)
