"""The quota of one listener: its limits, its count and its figures. Pure; times are milliseconds, given."""

from collections import Counter

from broker_runtime.network.figures import BlockedTime, ThrottleAverage
from broker_runtime.network.rate import Meter, meter
from broker_runtime.network.settings import QuotaSettings


class Wait:
    """An accepted socket that is held: since when, until when, and whether the broker's rate counts it."""

    __slots__ = ("deadline_ms", "in_broker_rate", "since_ms")

    def __init__(self, since_ms: int, deadline_ms: int, in_broker_rate: bool) -> None:
        self.since_ms = since_ms
        self.deadline_ms = deadline_ms
        self.in_broker_rate = in_broker_rate


class ListenerQuota:
    """One listener's limits, count and figures; read by `metrics`, changed by `ConnectionQuotas` only."""

    __slots__ = (
        "admitted_total",
        "blocked",
        "count",
        "delayed_total",
        "dropped_total",
        "ip_throttle",
        "max_connections",
        "meter",
        "name",
        "protected",
        "throttle",
        "too_many_total",
        "uncounted_ips",
        "waiting",
        "waits_total",
    )

    def __init__(self, name: str, settings: QuotaSettings, now_ms: int) -> None:
        self.name = name
        self.max_connections = settings.max_connections_of(name, protected=False)
        self.meter: Meter = meter(settings, settings.creation_rate_of(name, protected=False), now_ms)
        self.protected = False
        self.uncounted_ips: Counter[str] = Counter()
        """Open connections that were admitted while the listener was protected."""
        self.count = 0
        self.waiting: Wait | None = None
        self.blocked = BlockedTime(now_ms)
        self.throttle = ThrottleAverage(now_ms)
        self.ip_throttle = ThrottleAverage(now_ms)
        self.admitted_total = 0
        self.waits_total = 0
        self.too_many_total = 0
        self.delayed_total = 0
        self.dropped_total = 0

    def configure(self, settings: QuotaSettings, now_ms: int, *, protected: bool) -> None:
        self.protected = protected
        self.max_connections = settings.max_connections_of(self.name, protected=protected)
        rate = settings.creation_rate_of(self.name, protected=protected)
        if rate != self.meter.limit:
            self.meter.set_limit(rate, now_ms)
