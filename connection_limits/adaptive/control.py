"""The control law of one adaptive rate. Pure; times are milliseconds.

A `Bounds` is what the user sets, an `Interval` is what the broker has seen since the last call, and an `AdaptiveRate`
decides the rate of the next interval. See the package for the idea and the invariants.
"""

from dataclasses import dataclass
from enum import Enum

from connection_limits.adaptive.delays import Delays

INTERVAL_MS = 500
"""Time between two decisions."""
_TARGET = 0.9
"""A cut aims at this share of the objective."""
_CUT, _CUT_NEAR, _CUT_LEAST = 0.5, 0.8, 0.95
"""A cut leaves at least half of the rate, or 80 % of a rate that is known to be near the highest possible one."""
_HEALTHY = 0.7
"""The rate rises while the p99 is below this share of the objective."""
_RISE, _RISE_NEAR, _RISE_UNUSED = 0.05, 0.02, 0.01
_NEAR_FROM, _NEAR_CUT_FROM = 0.9, 0.7
"""Shares of a rate that has missed the objective: above them a rate is near it, for a rise and for a cut."""
_REMEMBERED_MS = 30_000
"""Time after which a rate that has missed the objective is forgotten: the load may have changed."""
_CAUSE = 1 / 6
"""Share of the event loop's time from which new connections count as the cause of the delays."""
_USED = 0.5
"""The rate is in use if so large a share of it was created."""


class Move(Enum):
    """Why the rate is what it is: the outcome of the last decision."""

    START = "start"
    """Nothing has been measured yet: the rate is the maximum rate."""
    CUT = "objective missed"
    """The p99 exceeded the objective, and new connections caused it."""
    RISE = "objective kept"
    """The p99 was well within the objective."""
    STEADY = "steady"
    """The p99 was close to the objective, or too few delays have been measured since the last change."""
    OTHER_LOAD = "other load"
    """The p99 exceeded the objective, but new connections did not cause it."""
    QUIET = "quiet"
    """Few new connections came, so nothing was measured: the rate returns slowly to the maximum rate."""
    AT_MIN = "at minimum"
    """The p99 exceeds the objective at the minimum rate."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the user sets: rates in new connections a second, and the largest p99 of delays. Raises ValueError."""

    min_rate: int
    max_rate: int
    objective_ms: int

    def __post_init__(self) -> None:
        if not 1 <= self.min_rate <= self.max_rate:
            raise ValueError(f"the minimum rate {self.min_rate} is not between 1 and the maximum rate {self.max_rate}")
        if self.objective_ms < 1:
            raise ValueError(f"the objective of {self.objective_ms} ms is below 1 ms")


@dataclass(frozen=True, slots=True)
class Interval:
    """What has happened since the last decision."""

    created: int
    """Connections that the rate has let in."""
    length_ms: int
    newcomers_ms: float
    """Time that the event loop spent on new connections: accepting them, and serving those younger than a second."""
    throttled: bool
    """Whether the rate has delayed a connection."""

    @property
    def created_per_s(self) -> float:
        return self.created * 1000 / self.length_ms

    @property
    def newcomers_share(self) -> float:
        """Share of the event loop's time, from 0 to 1."""
        return self.newcomers_ms / self.length_ms


class AdaptiveRate:
    """Owns one rate, its delays, and what it has learnt. `delays.add` records a delay; `decide` returns the rate."""

    __slots__ = ("_broke_at", "_broke_at_ms", "_exact", "bounds", "cuts_total", "delays", "moved_ms", "p99_ms", "why")

    def __init__(self, bounds: Bounds, now_ms: int) -> None:
        self.bounds = bounds
        self.delays = Delays()
        self.moved_ms = now_ms
        """Time of the last change of the rate."""
        self.cuts_total = 0
        self.why = Move.START
        self.p99_ms: float | None = None
        """The p99 that the last decision was about; None if too few delays were measured."""
        self._exact = float(bounds.max_rate)
        self._broke_at = float("inf")
        """The rate that has missed the objective last."""
        self._broke_at_ms = now_ms

    @property
    def rate(self) -> int:
        """New connections a second, from the minimum to the maximum rate."""
        return int(self._exact)

    def configure(self, bounds: Bounds, now_ms: int) -> None:
        """Apply other bounds. The rate changes only if it is outside of them; what was learnt is dropped."""
        if bounds != self.bounds:
            self.bounds = bounds
            self._broke_at = float("inf")
            self._set(self._exact, now_ms)

    def is_measured(self, created_per_s: float) -> bool:
        """Return whether delays have to be measured: a rate cannot be cut while fewer than its minimum come."""
        return created_per_s > self.bounds.min_rate

    def decide(self, interval: Interval, now_ms: int) -> int:
        """Return the rate of the next interval."""
        bounds, rate = self.bounds, self._exact
        p99_ms = self.p99_ms = self.delays.p99_ms()
        if not self.is_measured(interval.created_per_s) and not interval.throttled:
            self.why = Move.QUIET
            self.delays.forget()
            self._set(rate * (1 + _RISE_UNUSED), now_ms)
        elif p99_ms is None:
            if self.why in (Move.QUIET, Move.OTHER_LOAD):
                self.why = Move.STEADY
        elif p99_ms > bounds.objective_ms:
            self._missed(p99_ms, interval, now_ms)
        elif p99_ms < bounds.objective_ms * _HEALTHY and rate < bounds.max_rate:
            self._kept(interval, now_ms)
        else:
            self.why = Move.STEADY
        return self.rate

    def _missed(self, p99_ms: float, interval: Interval, now_ms: int) -> None:
        if interval.newcomers_share < _CAUSE:
            self.why = Move.OTHER_LOAD
            return
        # A rate that was not reached did not cause the delays: the rate that was reached did.
        reached = min(self._exact, interval.created_per_s)
        most = _CUT_NEAR if self._is_near(reached, _NEAR_CUT_FROM, now_ms) else _CUT
        self._broke_at, self._broke_at_ms = reached, now_ms
        gradient = self.bounds.objective_ms * _TARGET / p99_ms
        self._set(reached * min(max(gradient, most), _CUT_LEAST), now_ms)
        self.cuts_total += 1
        self.why = Move.AT_MIN if self.rate == self.bounds.min_rate else Move.CUT

    def _kept(self, interval: Interval, now_ms: int) -> None:
        rise = _RISE_UNUSED
        if interval.throttled or interval.created_per_s >= self._exact * _USED:
            rise = _RISE_NEAR if self._is_near(self._exact, _NEAR_FROM, now_ms) else _RISE
        self._set(self._exact * (1 + rise), now_ms)
        self.why = Move.RISE

    def _is_near(self, rate: float, from_share: float, now_ms: int) -> bool:
        return rate > self._broke_at * from_share and now_ms - self._broke_at_ms < _REMEMBERED_MS

    def _set(self, wanted: float, now_ms: int) -> None:
        exact = min(max(wanted, float(self.bounds.min_rate)), float(self.bounds.max_rate))
        if int(exact) != int(self._exact):
            self.moved_ms = now_ms
            self.delays.forget()
        self._exact = exact
