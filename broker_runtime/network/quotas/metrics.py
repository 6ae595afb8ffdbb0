"""The network layer's figures, named as Kafka's are in Prometheus. Pure: turns state into samples.

Kafka: kafka.server:type=socket-server-metrics and kafka.network:type=Acceptor,name=AcceptorBlockedPercent. Another
module does the HTTP exposition.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from math import isnan
from typing import TYPE_CHECKING, Literal

from broker_runtime.network.quotas.refusals import RefusalLog
from broker_runtime.network.sockets.proxy_header import HeaderOutcome
from broker_runtime.security.authentication_counts import COUNTED, AuthenticationCounts
from connection_limits.groups.connection_group import AddressGroup
from connection_limits.groups.connection_groups import ConnectionGroups
from connection_limits.listener_quota import ListenerQuota
from connection_limits.quotas import ConnectionQuotas

if TYPE_CHECKING:
    from connection_limits.adaptive.control import AdaptiveRate

MAX_IP_SERIES = 100
"""Maximum number of addresses in metrics, the most recently seen. A flood of addresses must not flood the scrape."""

MAX_GROUP_SERIES = 1_000
"""Maximum number of connection groups in metrics, the first by name. GET /connection-quotas has all."""

Kind = Literal["gauge", "counter"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric of the network layer. Names of counters end in _total."""

    name: str
    value: float
    kind: Kind
    help: str
    labels: dict[str, str] = field(default_factory=dict)


_ADAPTIVE_METRICS: tuple[tuple[str, Kind, str, "Callable[[AdaptiveRate], float]"], ...] = (
    ("", "gauge", "New connections per second that the adaptive rate allows now", lambda rate: rate.rate),
    ("_min", "gauge", "Minimum of the adaptive rate", lambda rate: rate.bounds.min_rate),
    ("_max", "gauge", "Maximum of the adaptive rate", lambda rate: rate.bounds.max_rate),
    (
        "_objective_ms",
        "gauge",
        "Largest p99 of the event loop's delay that the adaptive rate allows",
        lambda rate: rate.bounds.objective_ms,
    ),
    (
        "_delay_p99_ms",
        "gauge",
        "The p99 of the event loop's delay at the last decision; 0 while few connections come",
        lambda rate: rate.p99_ms or 0.0,
    ),
    ("_cuts_total", "counter", "Decisions that have lowered the adaptive rate", lambda rate: rate.cuts_total),
)


class NetworkMetrics:
    """The counters and gauges of all connections together. They start at zero with each process."""

    __slots__ = (
        "answer_bytes",
        "buffered_bytes",
        "evicted_total",
        "idle_closed_total",
        "paused_answers",
        "requests_without_memory",
        "unfinished_requests",
        "unread_answers",
    )

    def __init__(self) -> None:
        self.evicted_total = 0
        self.idle_closed_total = 0
        self.buffered_bytes = 0
        self.unfinished_requests = 0
        self.requests_without_memory = 0
        self.answer_bytes = 0
        self.unread_answers = 0
        self.paused_answers = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptorMetrics:
    """The metrics of one listener's acceptor."""

    listener: str
    delayed_count: int
    accept_errors_total: int
    abandoned_total: int
    waiting_count: int
    is_for_proxies: bool
    awaited_headers: int
    header_outcomes: Mapping[HeaderOutcome, int]


_SERVER = "kafka_server_socket_server_"
_ACCEPTOR = "kafka_network_acceptor_"
_PROXY = "sluicegate_proxy_"
_GROUP = "sluicegate_connection_group"
_ADAPTIVE = "sluicegate_adaptive_connection_rate"


def collect(
    quotas: ConnectionQuotas,
    figures: NetworkMetrics,
    refusals: RefusalLog,
    acceptors: Collection[AcceptorMetrics],
    now_ms: int,
    authentications: AuthenticationCounts | None = None,
) -> Iterator[Sample]:
    """Yield all samples of network metrics.

    The samples of one metric are consecutive, as the exposition format requires.
    """
    yield from _broker(quotas, figures, now_ms)
    yield from _by_listener(list(quotas.listeners.values()), now_ms)
    yield from _adaptive(quotas)
    yield from _by_acceptor(acceptors)
    yield from _by_group(quotas.addresses.groups)
    if authentications is not None:
        yield from _of_authentications(authentications)
    for kind, total in sorted(refusals.totals.items()):
        yield Sample(
            _SERVER + "refused_total",
            total,
            "counter",
            "Frames and connections that were refused or failed, by kind",
            {"kind": kind},
        )


def _of_authentications(counts: AuthenticationCounts) -> Iterator[Sample]:
    for name, text in COUNTED.items():
        for listener, counted in sorted(counts.by_listener.items()):
            yield Sample(_SERVER + name, counted.get(name, 0), "counter", text, {"listener": listener})


def _broker(quotas: ConnectionQuotas, figures: NetworkMetrics, now_ms: int) -> Iterator[Sample]:
    yield Sample(
        _SERVER + "broker_connection_accept_rate",
        quotas.rate_limit.meter.measure(now_ms),
        "gauge",
        "New connections per second, without those of the protected inter-broker listener",
    )
    yield Sample(_SERVER + "broker_connection_count", quotas.total, "gauge", "Open connections")
    yield Sample(
        _SERVER + "connections_evicted_total",
        figures.evicted_total,
        "counter",
        "Least recently used connections closed because max.connections was exceeded",
    )
    yield Sample(
        _SERVER + "connections_idle_closed_total",
        figures.idle_closed_total,
        "counter",
        "Connections closed after connections.max.idle.ms",
    )
    yield Sample(
        _SERVER + "buffered_request_bytes", figures.buffered_bytes, "gauge", "Bytes that unfinished requests occupy"
    )
    yield Sample(
        _SERVER + "unfinished_requests", figures.unfinished_requests, "gauge", "Requests that have arrived in part"
    )
    yield Sample(
        _SERVER + "requests_without_memory",
        figures.requests_without_memory,
        "gauge",
        "Requests whose rest is not read because unfinished requests fill queued.max.request.bytes",
    )
    yield Sample(
        _SERVER + "buffered_response_bytes",
        figures.answer_bytes,
        "gauge",
        "Bytes of responses that are being packed, or that clients have not read",
    )
    yield Sample(
        _SERVER + "unread_responses",
        figures.unread_answers,
        "gauge",
        "Connections whose client has not read all of its responses",
    )
    yield Sample(
        _SERVER + "responses_without_memory",
        figures.paused_answers,
        "gauge",
        "Responses whose packing pauses because responses fill sluicegate.queued.max.response.bytes",
    )
    yield Sample(
        _SERVER + "tracked_ips", len(quotas.addresses.rates), "gauge", "Addresses whose connection rate is tracked"
    )
    for ip, meter in islice(quotas.addresses.rates.recent(), MAX_IP_SERIES):
        yield Sample(
            _SERVER + "ip_connection_accept_rate",
            meter.measure(now_ms),
            "gauge",
            "New connections per second of an address with a limit, for the most recently seen addresses only",
            {"ip": ip},
        )


def _by_group(groups: ConnectionGroups) -> Iterator[Sample]:
    """Yield the samples of connection groups; none while no group is in force."""
    in_force = [group for group in groups.by_name.values() if group.in_force]
    if not in_force:
        return
    shown = sorted(in_force, key=lambda group: group.name)[:MAX_GROUP_SERIES]
    yield Sample(
        _GROUP + "s_left_out",
        len(in_force) - len(shown),
        "gauge",
        "Connection groups beyond the thousand that have metrics; GET /connection-quotas has them",
    )
    for group in shown:
        yield Sample(
            _GROUP + "_connections",
            group.connections,
            "gauge",
            "Open connections of addresses that a connection group limits or observes",
            {"group": group.name},
        )
    held = "Connections that a connection group has refused: too many, or too fast (delayed or dropped)"
    would_hold = "Connections that a connection group with `observe` would have refused"
    for group in shown:
        yield from _by_reason("_held_total", held, group, group.held)
    for group in shown:
        yield from _by_reason("_would_hold_total", would_hold, group, group.would_hold)


def _by_reason(name: str, text: str, group: AddressGroup, totals: Mapping[str, int]) -> Iterator[Sample]:
    for reason, total in sorted(totals.items()):
        yield Sample(_GROUP + name, total, "counter", text, {"group": group.name, "reason": reason})


def _by_listener(listeners: list[ListenerQuota], now_ms: int) -> Iterator[Sample]:
    def each(name: str, kind: Kind, text: str, values: list[float]) -> Iterator[Sample]:
        for listener, value in zip(listeners, values, strict=True):
            yield Sample(name, value, kind, text, {"listener": listener.name})

    yield from each(
        _SERVER + "connection_accept_rate",
        "gauge",
        "New connections per second",
        [listener.meter.measure(now_ms) for listener in listeners],
    )
    yield from each(
        _SERVER + "connection_accept_throttle_time_ms",
        "gauge",
        "Average delay of connections over the broker's or the listener's rate; 0 when there were none",
        [_number(listener.throttle.measure(now_ms)) for listener in listeners],
    )
    yield from each(
        _SERVER + "ip_connection_accept_throttle_time_ms",
        "gauge",
        "Average delay of connections over their address's rate; 0 when there were none",
        [_number(listener.ip_throttle.measure(now_ms)) for listener in listeners],
    )
    yield from each(
        _ACCEPTOR + "blocked_percent",
        "gauge",
        "Share of the last ten seconds in which a limit blocked the acceptor, 0 to 1",
        [listener.blocked.fraction(now_ms) for listener in listeners],
    )
    yield from each(
        _ACCEPTOR + "blocked_seconds_total",
        "counter",
        "Time in which a limit blocked the acceptor",
        [listener.blocked.total_s(now_ms) for listener in listeners],
    )
    yield from each(
        _SERVER + "connection_count", "gauge", "Open connections", [listener.count for listener in listeners]
    )
    yield from each(
        _SERVER + "connection_creation_total",
        "counter",
        "Connections admitted",
        [listener.admitted_total for listener in listeners],
    )
    yield from each(
        _ACCEPTOR + "waits_total",
        "counter",
        "Connections that had to wait for a rate or a slot",
        [listener.waits_total for listener in listeners],
    )
    reasons = ("too_many_total", "delayed_total", "dropped_total")
    for listener in listeners:
        for reason in reasons:
            yield Sample(
                _SERVER + "connections_rejected_total",
                getattr(listener, reason),
                "counter",
                "Connections refused because of the limits of their address: too many, or too fast (delayed or "
                "dropped)",
                {"listener": listener.name, "reason": reason.removesuffix("_total")},
            )


def _adaptive(quotas: ConnectionQuotas) -> Iterator[Sample]:
    """Yield the samples of rates that adapt; none if all are fixed."""
    limits = {"broker": quotas.rate_limit} | {
        f"listener {name}": listener.rate_limit for name, listener in quotas.listeners.items()
    }
    rates = {target: limit.adaptive for target, limit in limits.items() if limit.adaptive is not None}
    for name, kind, text, value in _ADAPTIVE_METRICS:
        for target, rate in rates.items():
            yield Sample(_ADAPTIVE + name, value(rate), kind, text, {"target": target})


def _by_acceptor(acceptors: Collection[AcceptorMetrics]) -> Iterator[Sample]:
    for acceptor in acceptors:
        yield Sample(
            _SERVER + "connections_delayed",
            acceptor.delayed_count,
            "gauge",
            "Refused connections that stay open until their delay ends",
            {"listener": acceptor.listener},
        )
    for acceptor in acceptors:
        yield Sample(
            _ACCEPTOR + "accept_errors_total",
            acceptor.accept_errors_total,
            "counter",
            "Accepts that failed because file descriptors or memory ran out",
            {"listener": acceptor.listener},
        )
    for acceptor in acceptors:
        yield Sample(
            _ACCEPTOR + "abandoned_total",
            acceptor.abandoned_total,
            "counter",
            "Connections that the client closed before the broker accepted them; they do not count in a rate",
            {"listener": acceptor.listener},
        )
    for acceptor in acceptors:
        yield Sample(
            _ACCEPTOR + "connections_waiting",
            acceptor.waiting_count,
            "gauge",
            "Accepted connections that wait for a rate or a slot; more may wait in the kernel",
            {"listener": acceptor.listener},
        )
    # Counts remain visible after the listener stops trusting proxies.
    proxied = [acceptor for acceptor in acceptors if acceptor.is_for_proxies or acceptor.header_outcomes]
    for acceptor in proxied:
        yield Sample(
            _PROXY + "headers_awaited",
            acceptor.awaited_headers,
            "gauge",
            "Connections of proxies whose PROXY protocol header has not arrived yet",
            {"listener": acceptor.listener},
        )
    for acceptor in proxied:
        for outcome in HeaderOutcome:
            yield Sample(
                _PROXY + "headers_total",
                acceptor.header_outcomes.get(outcome, 0),
                "counter",
                "Connections on which a PROXY protocol header was expected, by outcome: client and local are served, "
                "probe is a health check that sent no byte, abandoned ended before it was accepted, all others were "
                "refused",
                {"listener": acceptor.listener, "outcome": outcome.value},
            )


def _number(value: float) -> float:
    return 0.0 if isnan(value) else value
