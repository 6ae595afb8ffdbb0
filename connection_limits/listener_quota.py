"""The quota of one listener: its limits, its count and its figures. Pure; the caller passes times in milliseconds."""

from collections import Counter
from enum import Enum

from connection_limits.rate import Meter
from connection_limits.rate_limit import RateLimit
from connection_limits.settings import QuotaSettings
from connection_limits.throttle_averages import BlockedTime, ThrottleAverage


class WaitsFor(Enum):
    """The limit for which an acceptor waits."""

    BROKER_RATE = "broker-rate"
    BROKER_CONNECTIONS = "broker-connections"
    LISTENER_RATE = "listener-rate"
    LISTENER_CONNECTIONS = "listener-connections"


OF_BROKER = (WaitsFor.BROKER_RATE, WaitsFor.BROKER_CONNECTIONS)
OF_LISTENER = (WaitsFor.LISTENER_RATE, WaitsFor.LISTENER_CONNECTIONS)


class Wait:
    """The wait of an accepted socket.

    It records its start, its deadline, its limit, and whether the connection counts in the broker's rate.
    """

    __slots__ = ("deadline_ms", "in_broker_rate", "limit", "since_ms")

    def __init__(self, since_ms: int, deadline_ms: int, in_broker_rate: bool, limit: WaitsFor) -> None:
        self.since_ms = since_ms
        self.deadline_ms = deadline_ms
        self.in_broker_rate = in_broker_rate
        self.limit = limit


class Waits:
    """What one limit has made an acceptor wait: number of connections, and time."""

    __slots__ = ("blocked", "total")

    def __init__(self, now_ms: int) -> None:
        self.total = 0
        self.blocked = BlockedTime(now_ms)


class ListenerQuota:
    """One listener's limits, count and figures; read by `metrics`, changed by the quotas only."""

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
        self.rate_limit = RateLimit(settings, rate, objective, now_ms)
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
        self.rate_limit.configure(settings, rate, settings.objective_of(self.name, protected=protected), now_ms)

    @property
    def meter(self) -> Meter:
        """The meter that judges its rate."""
        return self.rate_limit.meter

    def rate_under(self, broker_rate: int) -> int:
        """Return the rate at which it accepts at most: its own limit, and the broker's unless it is protected."""
        return self.meter.limit if self.protected else min(self.meter.limit, broker_rate)

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
