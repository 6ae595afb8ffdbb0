"""The smallest token bucket for a series of arrivals. Pure.

A bucket of the rate r saves the tokens of one second, as `connection_limits.rate.TokenBucket` does. So n connections
that arrive within x seconds wait for at most d seconds if n <= r * (x + 1 + d). Arrivals are counted by whole seconds.
Those of the seconds s and t > s may be as close as t - s - 1 seconds.
"""

from typing import Any, Final, TypeAlias

import numpy as np

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

SAVED_S: Final = 1
"""Seconds whose tokens a bucket saves."""


def needed_rate(seconds: Numbers, counts: Numbers, wait_s: int) -> int:
    """Return the smallest rate, in connections a second, under which no connection waits for more than `wait_s` s.

    `counts` are the arrivals in each of the ascending `seconds`. With `wait_s` 0, a limit that rejects instead of
    delaying rejects no connection. The rate of no arrivals is 0.
    """
    if not len(counts) or not counts.max():
        return 0
    low, high = 0, 2 * int(counts.max())
    while high - low > 1:
        middle = (low + high) // 2
        if bool(_exceeding(seconds, counts, middle, wait_s).any()):
            low = middle
        else:
            high = middle
    return high


def _exceeding(seconds: Numbers, counts: Numbers, rate: int, wait_s: int) -> Flags:
    """Return the seconds t for which an s <= t has more arrivals from s to t than the bucket serves in time."""
    served = rate * (SAVED_S + wait_s)
    found: Flags = counts > served
    if len(counts) > 1:
        elapsed = seconds - seconds[0]
        total = np.cumsum(counts)
        # Arrivals from s to t exceed served + rate * (t - s - 1) for some s < t.
        least = np.minimum.accumulate(total - counts - rate * elapsed)
        found[1:] |= total[1:] - rate * elapsed[1:] - least[:-1] > served - rate
    return found
