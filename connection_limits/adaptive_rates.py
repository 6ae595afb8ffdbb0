"""Decide the adaptive rates of a broker and of its listeners, from the totals of the quotas. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from connection_limits.adaptive.control import INTERVAL_MS, AdaptiveRate, Interval
from connection_limits.listener_quota import WaitsFor
from connection_limits.quotas import ConnectionQuotas
from connection_limits.rate_limit import RateLimit


class _Totals(NamedTuple):
    """Totals of the quotas for one rate since they were created."""

    created: int
    """Connections that the rate admitted, including those that were then refused for the count of their address."""
    waits: int
    is_waiting: bool
    """Whether a connection waits for the rate now."""

    def throttled_since(self, before: "_Totals") -> bool:
        return self.is_waiting or self.waits > before.waits


@dataclass(frozen=True, slots=True)
class Moved:
    """An adaptive rate of connections that a decision has changed. `listener` is None for the broker's rate."""

    listener: str | None
    before: int
    adaptive: AdaptiveRate


class AdaptiveRates:
    """Adapts the rates of new connections that `quotas` has as adaptive.

    The caller measures delays, and the time of new connections.
    """

    def __init__(self, quotas: ConnectionQuotas, now_ms: int) -> None:
        self._quotas = quotas
        self._decided_ms = now_ms
        self._counted: dict[str | None, _Totals] = {}
        """Totals at the last decision, by target."""

    def by_target(self) -> Iterator[tuple[str | None, RateLimit, AdaptiveRate]]:
        """Yield the rates that adapt: the broker's, whose target is None, and those of listeners by their names."""
        quotas = self._quotas
        limits: list[tuple[str | None, RateLimit]] = [(None, quotas.rate_limit)]
        limits += [(name, listener.rate_limit) for name, listener in quotas.listeners.items()]
        for target, limit in limits:
            if limit.adaptive is not None:
                yield target, limit, limit.adaptive

    def add_delay(self, delay_ms: float) -> None:
        """Record how long a probe has waited for the event loop."""
        for _, _, adaptive in self.by_target():
            adaptive.delays.add(delay_ms)

    def needs_delays(self, now_ms: int) -> bool:
        """Return whether so many connections have come since the last decision that delays have to be measured."""
        elapsed_ms = max(now_ms - self._decided_ms, INTERVAL_MS)
        for target, _, adaptive in self.by_target():
            totals, before = self._totals(target), self._counted.get(target)
            if before is None or totals.throttled_since(before):
                return True
            if adaptive.is_measured((totals.created - before.created) * 1000 / elapsed_ms):
                return True
        return False

    def decide(self, newcomers_ms: float, now_ms: int) -> list[Moved]:
        """Decide all rates, and return those that changed. `newcomers_ms` is the time that new connections used."""
        length_ms = max(now_ms - self._decided_ms, 1)
        self._decided_ms = now_ms
        moved: list[Moved] = []
        counted: dict[str | None, _Totals] = {}
        for target, limit, adaptive in self.by_target():
            totals = counted[target] = self._totals(target)
            before = self._counted.get(target)
            if before is None:
                continue
            throttled = totals.throttled_since(before)
            interval = Interval(totals.created - before.created, length_ms, newcomers_ms, throttled=throttled)
            rate = limit.meter.limit
            limit.set_limit(adaptive.decide(interval, now_ms), now_ms)
            if limit.meter.limit != rate:
                moved.append(Moved(target, rate, adaptive))
        self._counted = counted
        return moved

    def _totals(self, target: str | None) -> _Totals:
        listeners = self._quotas.listeners
        if target is not None:
            limited, limit = [listeners[target]], WaitsFor.LISTENER_RATE
        else:
            limited, limit = [one for one in listeners.values() if not one.protected], WaitsFor.BROKER_RATE
        return _Totals(
            sum(listener.admitted_total + listener.too_many_total for listener in limited),
            sum(listener.waits[limit].total for listener in limited),
            any(one.waiting is not None and one.waiting.limit is limit for one in limited),
        )
