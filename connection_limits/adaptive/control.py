"""The control law of one adaptive rate. Pure; times are milliseconds.

`Bounds` are the user's settings, an `Interval` has the broker's figures since the last decision, and an `AdaptiveRate`
decides the rate of the next interval. The package's docstring has the idea and the invariants.
"""

from dataclasses import dataclass
from enum import Enum

from connection_limits.adaptive.delays import Delays

INTERVAL_MS = 500
"""Time between two decisions."""
_TARGET = 0.9
"""A cut aims at this share of the objective."""
_CUT, _CUT_NEAR, _CUT_LEAST = 0.5, 0.8, 0.95
"""Limits of a cut.

At least half of the rate stays, or 80 % of a rate that is known to be near the highest possible one.
"""
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
"""The rate is in use if at least this share of it was created."""


class Move(Enum):
    """The reason for the present rate: the outcome of the last decision."""

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
    """Few new connections came, so no delays were measured. The rate returns slowly to the maximum rate."""
    AT_MIN = "at minimum"
    """The p99 exceeds the objective at the minimum rate."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The user's settings: rates in new connections a second, and the largest p99 of delays. Raises ValueError."""

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
    """A broker's measurements since the last decision about adaptive rates."""

    created: int
    """Connections that the rate has admitted."""
    length_ms: int
    newcomers_ms: float
    """Time that the event loop spent on new connections, until a second after their first bytes."""
    throttled: bool
    """Whether the rate has delayed a connection."""

    @property
    def created_per_s(self) -> float:
        return self.created * 1000 / self.length_ms

    @property
    def newcomers_share(self) -> float:
        """Return the share of the event loop's time that new connections used, from 0 to 1."""
        return self.newcomers_ms / self.length_ms


class AdaptiveRate:
    """One adaptive rate, with its delays and the rate that last missed the objective."""

    __slots__ = ("_broke_at", "_broke_at_ms", "_exact", "bounds", "cuts_total", "delays", "moved_ms", "p99_ms", "why")

    def __init__(self, bounds: Bounds, now_ms: int) -> None:
        self.bounds = bounds
        self.delays = Delays()
        self.moved_ms = now_ms
        """Time of the last change of the rate."""
        self.cuts_total = 0
        self.why = Move.START
        self.p99_ms: float | None = None
        """The p99 that the last decision used; None if too few delays were measured."""
        self._exact = float(bounds.max_rate)
        self._broke_at = float("inf")
        """The rate that last missed the objective."""
        self._broke_at_ms = now_ms

    @property
    def rate(self) -> int:
        """Return the new connections a second, from the minimum to the maximum rate."""
        return int(self._exact)

    def configure(self, bounds: Bounds, now_ms: int) -> None:
        """Apply other bounds, and forget the rate that missed the objective.

        A rate within the bounds does not change.
        """
        if bounds != self.bounds:
            self.bounds = bounds
            self._broke_at = float("inf")
            self._set(self._exact, now_ms)

    def move_to(self, rate: int, now_ms: int) -> None:
        """Take over the rate that another one has decided, within the bounds."""
        self._set(float(rate), now_ms)

    def is_measured(self, created_per_s: float) -> bool:
        """Return whether delays have to be measured. They have not if fewer connections than the minimum rate come."""
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
            # Connections that come later did not cause these delays either.
            self.delays.forget()
            return
        # A rate that delayed no connection did not cause the delays: the connections that came did.
        reached = self._exact if interval.throttled else min(self._exact, interval.created_per_s)
        most = _CUT_NEAR if self._is_near(reached, _NEAR_CUT_FROM, now_ms) else _CUT
        self._broke_at, self._broke_at_ms = reached, now_ms
        gradient = self.bounds.objective_ms * _TARGET / p99_ms
        before = self.rate
        self._set(reached * min(max(gradient, most), _CUT_LEAST), now_ms)
        self.cuts_total += self.rate < before
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
