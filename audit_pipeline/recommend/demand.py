"""What one broker has seen of the connections of a target. Pure."""

from typing import Final, NamedTuple

import numpy as np

from audit_pipeline.recommend.needed_rate import Numbers, needed_rate

BURST_S: Final = 10
"""The seconds in a row over which the largest burst is counted."""
_PERMILLE: Final = (500, 990, 999)


class Demand(NamedTuple):
    """The connections of a target on one broker.

    - `rate_p50`, `rate_p99`, `rate_p999`: percentiles of the connections in a second, of all seconds.
    - `burst`: most usual connections in ten seconds in a row, the first time from the second `burst_s` on; 0 for none.
    - `needed`: the smallest rate for the usual connections.
    """

    connections: int
    storm_connections: int
    rate_p50: int
    rate_p99: int
    rate_p999: int
    burst: int
    burst_s: int
    needed: int


def demand(seconds: Numbers, attempts: Numbers, usual: Numbers, *, covered_s: int, wait_s: int) -> Demand:
    """Return the demand of a series: `attempts` in each of the ascending `seconds`.

    The log covers `covered_s` seconds altogether. `usual` are those of the `attempts` that belong to no storm, each of
    which may wait for `wait_s` seconds.
    """
    burst, burst_s = largest_burst(seconds, usual)
    return Demand(
        int(attempts.sum()),
        int((attempts - usual).sum()),
        *percentiles(attempts, covered_s),
        burst,
        burst_s,
        needed_rate(seconds, usual, wait_s),
    )


def percentiles(counts: Numbers, covered_s: int) -> tuple[int, int, int]:
    """Return p50, p99 and p99.9 of `covered_s` seconds: those that are not in `counts` have no connection."""
    ordered = np.sort(counts)
    quiet = max(0, covered_s - len(ordered))
    places = (-(-(quiet + len(ordered)) * permille // 1000) - quiet - 1 for permille in _PERMILLE)
    p50, p99, p999 = (int(ordered[place]) if place >= 0 else 0 for place in places)
    return p50, p99, p999


def largest_burst(seconds: Numbers, counts: Numbers) -> tuple[int, int]:
    """Return the most connections in ten seconds in a row, and the first of these seconds; zeros if there are none."""
    if not len(counts) or not counts.max():
        return 0, 0
    before = np.concatenate(([0], np.cumsum(counts)))
    sums = before[np.searchsorted(seconds, seconds + BURST_S)] - before[:-1]
    sums[counts == 0] = 0
    first = int(np.argmax(sums))
    return int(sums[first]), int(seconds[first])
