"""The limit that a log suggests for a target, and why. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from audit_pipeline.recommend.demand import BURST_S, Demand
from audit_pipeline.recommend.needed_rate import SAVED_S
from audit_pipeline.results.arrivals.targets import LISTENER, PER_ADDRESS

STRATEGY: Final = "token-bucket"
WAIT_S: Final = 2
"""For how long a limit of a listener may delay a usual connection. Limits of addresses reject instead of delaying."""


@dataclass(frozen=True, slots=True)
class LimitTarget:
    """The target of a limit. `kind` is a field of ConnectionQuota.spec.target. Only ranges have `limit_is`."""

    cluster_id: str
    kind: str
    name: str
    limit_is: str | None = None

    @property
    def wait_s(self) -> int:
        """For how many seconds this kind of limit may delay a usual connection."""
        return WAIT_S if self.kind == LISTENER else 0


@dataclass(frozen=True, slots=True)
class SeenStorms:
    """The storms of a target: their number, and the most connections in ten seconds of the largest and smallest one."""

    number: int = 0
    most: int = 0
    least: int = 0


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggested limit. `demand` is that of all brokers: sums of connections, and otherwise the greatest values.

    `brokers` is the number of brokers that had connections. `is_holding`: the limit admits fewer connections of each
    storm than came in its worst ten seconds.
    """

    target: LimitTarget
    brokers: int
    demand: Demand
    storms: SeenStorms

    @property
    def rate(self) -> int:
        """Connections a second on each broker: at least 1, because a limit of 0 cannot be written."""
        return max(1, self.demand.needed)

    @property
    def admits(self) -> int:
        """The most connections that the limit admits in ten seconds in a row."""
        return self.rate * (BURST_S + SAVED_S)

    @property
    def is_holding(self) -> bool:
        return not self.storms.number or self.storms.least > self.admits

    @property
    def why(self) -> str:
        """Sentences that explain the rate."""
        return f"{self._of_demand()} {self._of_storms()}"

    def _of_demand(self) -> str:
        demand = self.demand
        if not demand.needed:
            return "All its connections are of storms, so the rate is the smallest one."
        fate = f"delays no usual connection by more than {WAIT_S} s" if self.target.wait_s else "rejects no usual one"
        whose = "of one address" if self.target.limit_is == PER_ADDRESS else "on one broker"
        return (
            f"{self.rate:,}/s is the smallest rate that {fate}. "
            f"The largest usual burst is {demand.burst:,} connections in {BURST_S} s {whose}."
        )

    def _of_storms(self) -> str:
        storms = self.storms
        if not storms.number:
            return "There was no storm."
        which = "The storm" if storms.number == 1 else f"The smallest of {storms.number:,} storms"
        came = f"{which} brought {storms.least:,} in {BURST_S} s, of which the limit admits"
        if self.is_holding:
            return f"{came} at most {self.admits:,}."
        return f"{came} up to {self.admits:,}: no rate holds it without holding usual connections, too."


def suggested(target: LimitTarget, demands: Iterable[tuple[int, Demand]], storms: SeenStorms) -> Suggestion:
    """Return the suggestion of what each broker has seen: a limit has the same rate on all of them.

    `demands` has the ID of a broker with each demand. Raises ValueError without any.
    """
    found = sorted(demands)
    if not found:
        raise ValueError(f"no broker has seen a connection of {target}")
    each = [demand for _, demand in found]
    most = max(each, key=lambda demand: (demand.burst, -demand.burst_s))
    merged = Demand(
        sum(demand.connections for demand in each),
        sum(demand.storm_connections for demand in each),
        max(demand.rate_p50 for demand in each),
        max(demand.rate_p99 for demand in each),
        max(demand.rate_p999 for demand in each),
        most.burst,
        most.burst_s,
        max(demand.needed for demand in each),
    )
    return Suggestion(target, len(found), merged, storms)
