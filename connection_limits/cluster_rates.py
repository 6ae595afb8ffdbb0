"""This broker's rates of the cluster: measures their demands, and applies the shares to the quotas' meters. Pure.

Names of limits on the wire: `broker`, `listener:NAME` and `group:NAME`. Times are milliseconds.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from connection_limits.cluster.reports import THOUSANDTHS, ShareState
from connection_limits.cluster.share_meter import ShareMeter
from connection_limits.cluster.shares import Shares
from connection_limits.listener_quota import WaitsFor
from connection_limits.quotas import RATES, ConnectionQuotas, share_wait_ms

_SMOOTHED_MS = 300
"""Time constant of the measured demand: clients that leave free a share within a second."""
_IGNORED_PARTS = 100
"""A demand below this part of an equal part of the rate counts as none."""
_QUEUE = 2
"""So many waiting clients show that the share is too small, by an unknown factor."""
_MORE = 2
"""A broker with a queue demands at least this factor of its share."""


class Target(NamedTuple):
    """A limit with a rate of the cluster: exactly one of the last three is set for a listener or a group."""

    name: str
    meter: ShareMeter
    listener: str | None = None
    group: str | None = None


class MovedShare(NamedTuple):
    """A share that came into force, or the reserve at the end of a lease, in thousandths of a connection a second.

    `ended_ms` is the end of the lease; None if the share came into force with the others of the same step.
    """

    target: Target
    share: int
    brokers: int
    ended_ms: int | None = None


class _Measured:
    """The measurement of one demand."""

    __slots__ = ("attempts", "demand", "meter")

    def __init__(self, meter: ShareMeter, attempts: int) -> None:
        self.meter = meter
        self.attempts = attempts
        self.demand = 0.0
        """Attempts a second, smoothed."""


class ShownShare(NamedTuple):
    """One rate of the cluster on this broker, for display. Rates are connections a second."""

    rate: int
    share: float
    demand: float
    brokers: int | None
    age_s: float | None
    state: ShareState


def targets(quotas: ConnectionQuotas) -> Iterator[Target]:
    """Yield all rates of the cluster: the broker's, those of listeners, and those of connection groups."""
    if quotas.rate_limit.share is not None:
        yield Target("broker", quotas.rate_limit.share)
    for name, listener in quotas.listeners.items():
        if listener.rate_limit.share is not None:
            yield Target(f"listener:{name}", listener.rate_limit.share, listener=name)
    for name, group in quotas.addresses.groups.cluster_wide.items():
        if group.share is not None:
            yield Target(f"group:{name}", group.share, group=name)


def wait_again(quotas: ConnectionQuotas, now_ms: int) -> None:
    """Compute the waits of connections again, because this broker has other shares."""
    for listener in quotas.listeners.values():
        wait = listener.waiting
        if wait is not None and wait.limit in RATES:
            wait_ms = share_wait_ms(quotas, listener, wait, now_ms)
            wait.deadline_ms = max(wait.fixed_until_ms, now_ms + wait_ms)
            quotas.wake(listener.name)


class ClusterRates:
    """Keeps `shares` in step with the quotas: which limits there are, their demands, and the meters' shares."""

    def __init__(self, quotas: ConnectionQuotas, shares: Shares, now_ms: int) -> None:
        self.shares = shares
        self._quotas = quotas
        self._measured: dict[str, _Measured] = {}
        self._measured_ms = now_ms
        self._phase = shares.phase(now_ms)
        self._moved: list[MovedShare] = []

    def take_moved(self) -> list[MovedShare]:
        """Return the shares that have come into force since the last call, in their order."""
        moved, self._moved = self._moved, []
        return moved

    @property
    def is_needed(self) -> bool:
        """Whether there is a rate of the cluster, or the controller has to learn that there is none any more."""
        return any(True for _ in targets(self._quotas)) or not self.shares.is_empty

    def update(self, queued: Mapping[str, int], now_ms: int) -> bool:
        """Take note of changed limits, measure demands and apply the shares. Return whether a share has changed.

        `queued` has the number of clients that wait to be accepted, by listener.
        """
        elapsed_ms = now_ms - self._measured_ms
        self._measured_ms = now_ms
        names = set()
        changed = False
        phase = self.shares.phase(now_ms)
        if phase != self._phase:
            self._phase = phase
            changed = self.apply(now_ms)
        for target in targets(self._quotas):
            names.add(target.name)
            held, rate = self.shares.limits.get(target.name), target.meter.limit * THOUSANDTHS
            known = self._measured.get(target.name)
            if held is None or held.rate != rate or known is None or known.meter is not target.meter:
                self.shares.set_limit(target.name, rate, now_ms)
                changed |= self._apply(target, now_ms)
            demand = self._demand(target, queued, elapsed_ms)
            if demand or (held is not None and held.demand):
                self.shares.demand_is(target.name, demand)
        for name in self._measured.keys() - names:
            del self._measured[name]
            self.shares.remove_limit(name)
        if changed:
            wait_again(self._quotas, now_ms)
        return changed

    def apply(self, now_ms: int) -> bool:
        """Apply the shares after an answer, or after they were given up. Return whether a share has changed."""
        changed = False
        for target in targets(self._quotas):
            if target.name in self.shares.limits:
                changed = self._apply(target, now_ms) or changed
        if changed:
            wait_again(self._quotas, now_ms)
        return changed

    def _apply(self, target: Target, now_ms: int) -> bool:
        shares, meter = self.shares, target.meter
        right = shares.right(shares.limits[target.name], now_ms)
        before = known = meter.share
        others = meter.brokers, meter.least_saved
        meter.brokers = shares.brokers if shares.answered_ms is not None else shares.registered
        meter.use(right.share, right.reserve, shares.lease_end, now_ms)
        if meter.lapsed is not None:
            ended_ms, known = meter.lapsed
            meter.lapsed = None
            self._moved.append(MovedShare(target, known, meter.brokers, ended_ms))
        if right.share != known or (meter.brokers, meter.least_saved) != others:
            self._moved.append(MovedShare(target, right.share, meter.brokers))
        return right.share != before

    def _demand(self, target: Target, queued: Mapping[str, int], elapsed_ms: int) -> int:
        """Return the rate of attempts, in thousandths of a connection a second."""
        meter = target.meter
        # A group rejects what exceeds its share; a listener and the broker let it wait.
        attempts = meter.recorded_total + (meter.throttled_total if target.group is not None else 0)
        known = self._measured.get(target.name)
        if known is None or known.meter is not meter:
            self._measured[target.name] = known = _Measured(meter, attempts)
        elif attempts == known.attempts and not known.demand and not (target.group is None and queued):
            # Nearly all limits at nearly all times.
            return 0
        new, known.attempts = attempts - known.attempts, attempts
        if elapsed_ms > 0:
            per_s = max(0, new) * 1000 / elapsed_ms
            known.demand += (per_s - known.demand) * elapsed_ms / (elapsed_ms + _SMOOTHED_MS)
            if known.demand < 1 / THOUSANDTHS:
                known.demand = 0.0
        waiting = 0 if target.group is not None else self._waiting(target.listener, queued)
        demand = int((known.demand + waiting) * THOUSANDTHS)
        if waiting >= _QUEUE:
            demand = max(demand, _MORE * meter.share)
        least = meter.limit * THOUSANDTHS // (_IGNORED_PARTS * meter.brokers)
        return min(demand, meter.limit * THOUSANDTHS) if demand > least else 0

    def _waiting(self, of_listener: str | None, queued: Mapping[str, int]) -> int:
        """Return how many clients wait for the rate of a listener, or for the broker's if it is None."""
        limit = WaitsFor.BROKER_RATE if of_listener is None else WaitsFor.LISTENER_RATE
        return sum(
            queued.get(name, 0)
            for name, listener in self._quotas.listeners.items()
            if (of_listener is None or name == of_listener)
            and listener.waiting is not None
            and listener.waiting.limit is limit
        )

    def shown(self, name: str, now_ms: int) -> ShownShare | None:
        """Describe the rate of the cluster with this name; None if this broker has no such rate."""
        held = self.shares.limits.get(name)
        if held is None:
            return None
        right = self.shares.right(held, now_ms)
        answered_ms = self.shares.answered_ms
        return ShownShare(
            held.rate // THOUSANDTHS,
            right.share / THOUSANDTHS,
            held.demand / THOUSANDTHS,
            None if answered_ms is None else self.shares.brokers,
            None if answered_ms is None else (now_ms - answered_ms) / 1000,
            right.state,
        )
