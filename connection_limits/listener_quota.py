"""The quota of one listener: its limits, its count and its figures. Pure; the caller passes times in milliseconds."""

from collections import Counter
from enum import Enum

from connection_limits.rate import Meter
from connection_limits.rate_limit import RateLimit
from connection_limits.settings import QuotaSettings
from connection_limits.throttle_averages import BlockedTime, ThrottleAverage


class WaitsFor(Enum):
    """The connection limit for which an acceptor waits."""

    BROKER_RATE = "broker-rate"
    BROKER_CONNECTIONS = "broker-connections"
    LISTENER_RATE = "listener-rate"
    LISTENER_CONNECTIONS = "listener-connections"


OF_BROKER = (WaitsFor.BROKER_RATE, WaitsFor.BROKER_CONNECTIONS)
OF_LISTENER = (WaitsFor.LISTENER_RATE, WaitsFor.LISTENER_CONNECTIONS)


class Wait:
    """The wait of an accepted socket: its start, its deadline, its limit.

    It also records whether the connection counts in the broker's rate.
    """

    __slots__ = ("deadline_ms", "fixed_until_ms", "in_broker_rate", "limit", "since_ms")

    def __init__(
        self, since_ms: int, deadline_ms: int, in_broker_rate: bool, limit: WaitsFor, fixed_until_ms: int | None = None
    ) -> None:
        self.since_ms = since_ms
        self.deadline_ms = deadline_ms
        self.fixed_until_ms = deadline_ms if fixed_until_ms is None else fixed_until_ms
        """The deadline by limits whose rate is not a share of this broker."""
        self.in_broker_rate = in_broker_rate
        self.limit = limit


class Waits:
    """The waits that one limit has caused for an acceptor: number of connections, and time."""

    __slots__ = ("blocked", "total")

    def __init__(self, now_ms: int) -> None:
        self.total = 0
        self.blocked = BlockedTime(now_ms)


class ListenerQuota:
    """The limits, count and metrics of one listener. `metrics` reads them, only the quotas change them."""

    __slots__ = (
        "admitted_total",
        "blocked",
        "count",
        "delayed_total",
        "dropped_total",
        "ip_throttle",
        "max_connections",
        "name",
        "protected",
        "rate_limit",
        "throttle",
        "too_many_total",
        "uncounted_ips",
        "waiting",
        "waits",
        "waits_total",
    )

    def __init__(self, name: str, settings: QuotaSettings, now_ms: int) -> None:
        self.name = name
        self.max_connections = settings.max_connections_of(name, protected=False)
        rate, objective = settings.creation_rate_of(name, protected=False), settings.listener_objectives.get(name)
        is_cluster_wide = settings.is_cluster_wide(name, protected=False)
        self.rate_limit = RateLimit(settings, rate, objective, now_ms, is_cluster_wide=is_cluster_wide)
        self.protected = False
        self.uncounted_ips: Counter[str] = Counter()
        """Open connections that were admitted while the listener was protected."""
        self.count = 0
        self.waiting: Wait | None = None
        self.blocked = BlockedTime(now_ms)
        self.waits = {limit: Waits(now_ms) for limit in WaitsFor}
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
        self.rate_limit.configure(
            settings,
            rate,
            settings.objective_of(self.name, protected=protected),
            now_ms,
            is_cluster_wide=settings.is_cluster_wide(self.name, protected=protected),
        )

    @property
    def meter(self) -> Meter:
        """Return the meter that judges the listener's rate."""
        return self.rate_limit.meter

    def rate_under(self, broker_rate: int) -> int:
        """Return the highest rate at which the listener accepts.

        It is the listener's own limit, and the broker's unless the listener is protected.
        """
        own = self.rate_limit.accepted_per_s
        return own if self.protected else min(own, broker_rate)

    def begin_wait(self, wait: Wait, now_ms: int) -> None:
        self.waiting = wait
        self.waits_total += 1
        self.blocked.begin(now_ms)
        self._begin(wait.limit, now_ms)

    def wait_for(self, limit: WaitsFor, now_ms: int) -> None:
        """Record that the waiting connection now waits for another limit."""
        wait = self.waiting
        if wait is not None and wait.limit is not limit:
            self.waits[wait.limit].blocked.end(now_ms)
            wait.limit = limit
            self._begin(limit, now_ms)

    def end_wait(self, now_ms: int) -> None:
        wait, self.waiting = self.waiting, None
        self.blocked.end(now_ms)
        if wait is not None:
            self.waits[wait.limit].blocked.end(now_ms)

    def _begin(self, limit: WaitsFor, now_ms: int) -> None:
        waits = self.waits[limit]
        waits.total += 1
        waits.blocked.begin(now_ms)
