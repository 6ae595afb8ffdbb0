"""Limits of this broker, its listeners and single addresses, with the connections that each delays or refuses. Pure.

For GET /connection-limits and /connection-quotas; docs/reference/connection-groups.md documents the fields.
"""

from collections.abc import Callable, Collection, Iterable
from heapq import nlargest, nsmallest
from typing import TYPE_CHECKING

from connection_limits.listener_quota import OF_BROKER, OF_LISTENER, ListenerQuota, WaitsFor
from connection_limits.quotas import ConnectionQuotas
from connection_limits.rate_limit import RateLimit
from connection_limits.settings import UNLIMITED

if TYPE_CHECKING:
    from connection_limits.cluster.share_meter import ShareMeter
    from connection_limits.cluster_rates import ClusterRates

SHOWN_MAX = 500
"""Maximum number of addresses, and of connection groups, in one response."""

Content = dict[str, object]


class LimitsHeld:
    """The limits of a broker and what they hold back, from the quotas as of `now_ms`."""

    def __init__(self, quotas: ConnectionQuotas, now_ms: int, cluster_rates: "ClusterRates | None" = None) -> None:
        """`cluster_rates` has the shares of rates of the cluster; None if the broker has none."""
        self._quotas = quotas
        self._cluster_rates = cluster_rates
        self._addresses = quotas.addresses
        self._now_ms = now_ms

    def of_all_clients(self) -> Content:
        """Return the limits that apply to connections of every address."""
        return {
            "broker": self._broker(),
            "listeners": {name: self._listener(one) for name, one in sorted(self._quotas.listeners.items())},
        }

    def page(self, after: str) -> Content:
        """Return one page of all limits except those of connection groups.

        Addresses are sorted, and begin after the address `after`. The field `next` of the result is the value of
        `after` for the next page; None on the last page.
        """
        limited = (ip for ip in self._limited_addresses() if ip > after)
        found = nsmallest(SHOWN_MAX + 1, limited)
        return {
            **self.of_all_clients(),
            "default_ip": self._default_ip(),
            "ips": {ip: self._ip(ip) for ip in found[:SHOWN_MAX]},
            "next": found[SHOWN_MAX - 1] if len(found) > SHOWN_MAX else None,
        }

    def held(self) -> Content:
        """Return the limits of all clients, and the addresses and connection groups with the most refused connections.

        The counts begin when this broker starts. `left_out` is the number of other addresses and groups.
        """
        rates, counts = self._addresses.rates, self._addresses.counts
        by_name = self._addresses.groups.by_name
        ips = {ip: 0 for ip in (*rates.held, *counts.held) if ip is not None}
        groups = {name: group.held.total() for name, group in by_name.items() if group.held}
        busiest_ips = nlargest(SHOWN_MAX, ips, key=lambda ip: rates.held[ip] + counts.held[ip])
        busiest_groups = nlargest(SHOWN_MAX, groups, key=groups.__getitem__)
        return {
            **self.of_all_clients(),
            "default_ip": self._default_ip(),
            "ips": {ip: self._ip(ip) for ip in busiest_ips},
            "groups": {name: {"held": dict(by_name[name].held)} for name in busiest_groups},
            "left_out": len(ips) - len(busiest_ips) + len(groups) - len(busiest_groups),
        }

    def _limited_addresses(self) -> Iterable[str]:
        rates, counts = self._addresses.rates.overrides, self._addresses.counts.overrides
        yield from rates
        yield from (ip for ip in counts if ip not in rates)

    def _broker(self) -> Content:
        quotas = self._quotas
        limited = [listener for listener in quotas.listeners.values() if not listener.protected]
        return {
            "connection_creation_rate": shown(quotas.rate_limit.meter.limit),
            "adaptive": self._adaptive(quotas.rate_limit),
            "cluster": self.cluster("broker", quotas.rate_limit.share),
            "max_connections": shown(quotas.settings.max_connections),
            "rate": quotas.rate_limit.meter.measure(self._now_ms),
            "connections": quotas.total,
            "held": _held(
                sum(one.waits[WaitsFor.BROKER_RATE].total for one in limited),
                sum(one.waits[WaitsFor.BROKER_CONNECTIONS].total for one in limited),
            ),
            "blocked_share": max((self._blocked_share(one, OF_BROKER) for one in limited), default=0.0),
        }

    def _listener(self, listener: ListenerQuota) -> Content:
        settings = self._quotas.settings
        own = {
            "connection_creation_rate": settings.listener_max_connection_creation_rate,
            "max_connections": settings.listener_max_connections,
        }
        return {
            "connection_creation_rate": shown(listener.meter.limit),
            "adaptive": self._adaptive(listener.rate_limit),
            "cluster": self.cluster(f"listener:{listener.name}", listener.rate_limit.share),
            "max_connections": shown(listener.max_connections),
            "inherited": [key for key, values in own.items() if listener.name not in values],
            "rate": listener.meter.measure(self._now_ms),
            "connections": listener.count,
            "held": _held(
                listener.waits[WaitsFor.LISTENER_RATE].total, listener.waits[WaitsFor.LISTENER_CONNECTIONS].total
            ),
            "blocked_share": self._blocked_share(listener, OF_LISTENER),
        }

    def _adaptive(self, limit: RateLimit) -> Content | None:
        adaptive = limit.adaptive
        if adaptive is None:
            return None
        bounds = adaptive.bounds
        return {
            "min_rate": bounds.min_rate,
            "max_rate": shown(bounds.max_rate),
            "objective_p99_ms": bounds.objective_ms,
            "p99_ms": adaptive.p99_ms,
            "reason": adaptive.why.value,
            "unchanged_s": (self._now_ms - adaptive.moved_ms) / 1000,
            "cuts": adaptive.cuts_total,
        }

    def cluster(self, name: str, meter: "ShareMeter | None") -> Content | None:
        """Describe a rate of the cluster by its name in reports; None if the rate is this broker's own."""
        if meter is None:
            return None
        shown_share = None if self._cluster_rates is None else self._cluster_rates.shown(name, self._now_ms)
        if shown_share is None:
            return {
                "rate": meter.limit,
                "share": 0.0,
                "demand": 0.0,
                "brokers": None,
                "age_s": None,
                "state": "waiting",
            }
        return {**shown_share._asdict(), "state": shown_share.state.value}

    def _blocked_share(self, listener: ListenerQuota, limits: Collection[WaitsFor]) -> float:
        # An acceptor waits for one limit at a time.
        return min(1.0, sum(listener.waits[limit].blocked.fraction(self._now_ms) for limit in limits))

    def _default_ip(self) -> Content:
        return {
            "connection_creation_rate": shown(self._addresses.rates.limit()),
            "max_connections": shown(self._quotas.settings.max_connections_per_ip),
            "held": _held(self._addresses.rates.held[None], self._addresses.counts.held[None]),
        }

    def _ip(self, ip: str) -> Content:
        return {
            "connection_creation_rate": _of_its_own(ip, self._addresses.rates.overrides.get),
            "max_connections": _of_its_own(ip, self._addresses.counts.overrides.get),
            "rate": self._addresses.rates.rate(ip, self._now_ms),
            "connections": self._addresses.counts.count(ip),
            "held": _held(self._addresses.rates.held[ip], self._addresses.counts.held[ip]),
        }


def shown(limit: int) -> int | None:
    """Return the limit for display; None without a limit."""
    return None if limit >= UNLIMITED else limit


def _of_its_own(ip: str, get: Callable[[str], int | None]) -> int | None:
    found = get(ip)
    return None if found is None else shown(found)


def _held(by_rate: int, by_count: int) -> Content:
    return {"rate": by_rate, "connections": by_count}
