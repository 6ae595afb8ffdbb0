"""Admit connections by one broker's share of a rate of the cluster. Pure; times are milliseconds.

A token bucket with the tokens of 300 ms, whatever the strategy of the broker's other rates is. The windowed rate would
admit ten seconds of a share at once, and each broker in turn would do so while the share moves.
"""

import sys
from math import ceil
from typing import Final, NamedTuple

from connection_limits.cluster.reports import THOUSANDTHS
from connection_limits.rate import WindowedRate
from connection_limits.settings import UNLIMITED

_SAVED_MS = 300
_SAVED_OF_EQUAL_PART_MS = 500
"""A broker saves one token if its equal part of the rate earns that many within this time.

So a quiet broker admits a single client at once even by a small share, and all brokers together save the tokens of half
a second at most.
"""

_WANTED_MS = 11_000
"""For this long after a rejected connection, a meter that rejects saves a whole token, however small its share is.

Otherwise a share that earns less than one token in 300 ms would admit no connection at all: unlike a listener's client,
a rejected one does not wait until its token is earned. Clients try again within this time.
"""
_WANTED_MOST = 2.0
"""The most tokens that are saved for this reason."""


class LeaseEnd:
    """The end of the lease of all shares of one broker, which its meters read."""

    __slots__ = ("at_ms",)

    def __init__(self, at_ms: int = 0) -> None:
        self.at_ms = at_ms


class Lapse(NamedTuple):
    """The end of a lease, and the reserve with which a meter has continued, in thousandths of a connection a second."""

    at_ms: int
    reserve: int


NO_END: Final = LeaseEnd(sys.maxsize)
"""The end of a lease that a replay of recorded shares never reaches: the log has the ends of leases."""


class ShareMeter:
    """A `Meter` whose rate is this broker's share. `limit` is the rate of all brokers, in connections a second.

    `rejects`: a connection over the share is rejected, and undone at once; otherwise it waits until it is earned.

    A new meter has no share. When the lease ends, the meter continues with its reserve by itself: a process that was
    suspended admits nothing by an old share.
    """

    __slots__ = (
        "_lease_end",
        "_least_saved",
        "_longest_ms",
        "_rate",
        "_refilled_ms",
        "_rejects",
        "_reserve",
        "_share",
        "_tokens",
        "_wanted_ms",
        "brokers",
        "lapsed",
        "limit",
        "recorded_total",
        "throttled_total",
    )

    def __init__(self, num: int, window_ms: int, limit: int, now_ms: int, *, rejects: bool = False) -> None:
        self.limit = limit
        self.brokers = 1
        """Number of brokers among which the rate is divided."""
        self.lapsed: Lapse | None = None
        """The last end of a lease at which the meter continued with its reserve; the owner of the meter resets it."""
        self.recorded_total = 0
        """Number of recorded connections, without those that were undone."""
        self.throttled_total = 0
        """Number of connections that were over the share when they were recorded."""
        self._rate = WindowedRate(num, window_ms, UNLIMITED, now_ms)
        self._longest_ms = window_ms
        self._share = self._reserve = 0
        self._lease_end = LeaseEnd()
        self._least_saved = 0.0
        self._tokens = 0.0
        self._refilled_ms = now_ms
        self._rejects = rejects
        self._wanted_ms = now_ms
        """Until then the meter saves a whole token, because it has rejected a connection."""

    @property
    def share(self) -> int:
        """The share after the last refill, in thousandths of a connection a second."""
        return self._share

    @property
    def least_saved(self) -> float:
        """The tokens that the meter saves whatever its share is."""
        return self._least_saved

    @property
    def expected_per_s(self) -> int:
        """Connections a second that this broker may expect to admit if clients need them: at least an equal part."""
        return max(1, self._share // THOUSANDTHS, self.limit // self.brokers)

    @property
    def last_ms(self) -> int:
        return self._rate.last_ms

    @last_ms.setter
    def last_ms(self, now_ms: int) -> None:
        self._rate.last_ms = now_ms

    def use(self, share: int, reserve: int, lease_end: LeaseEnd, now_ms: int) -> None:
        """Admit `share` until the lease ends, and `reserve` afterwards, which is at most `share`.

        A larger share begins with the saved tokens of the previous one, so moving shares saves no tokens twice.
        """
        self._refill(now_ms)
        is_first = share > 0 and not self._least_saved
        self._share, self._reserve, self._lease_end = share, min(reserve, share), lease_end
        if share > 0:
            self._least_saved = min(1.0, self.limit * _SAVED_OF_EQUAL_PART_MS / (1000 * self.brokers))
        # The first client of a broker that joins does not wait for its token.
        self._tokens = min(self._tokens + is_first * self._least_saved, self._most(now_ms))

    def _most(self, now_ms: int) -> float:
        of_share = self._share * _SAVED_MS / (1000 * THOUSANDTHS)
        if now_ms < self._wanted_ms:
            # What the share earns until the next client tries is not lost.
            return max(of_share, min(1 + of_share, _WANTED_MOST))
        return max(of_share, self._least_saved)

    def _refill(self, now_ms: int) -> None:
        end_ms = self._lease_end.at_ms
        if now_ms >= end_ms and self._share != self._reserve:
            ended_ms = max(end_ms, self._refilled_ms)
            self._earn(ended_ms)
            self._share = self._reserve
            self.lapsed = Lapse(ended_ms, self._reserve)
        self._earn(now_ms)

    def _earn(self, to_ms: int) -> None:
        earned = (to_ms - self._refilled_ms) * self._share / (1000 * THOUSANDTHS)
        self._tokens = min(self._tokens + earned, self._most(to_ms))
        self._refilled_ms = to_ms

    def record(self, now_ms: int) -> None:
        self._rate.record(now_ms)
        self.recorded_total += 1
        self._refill(now_ms)
        self._tokens -= 1

    def unrecord(self, now_ms: int) -> None:
        self._rate.unrecord(now_ms)
        self.recorded_total -= 1
        if self._rejects and self._tokens < 0:
            self._wanted_ms = now_ms + _WANTED_MS
        self._tokens = min(self._tokens + 1, self._most(now_ms))

    def measure(self, now_ms: int) -> float:
        return self._rate.measure(now_ms)

    def throttle_ms(self, now_ms: int) -> int:
        delay_ms = self.delay_ms(now_ms)
        self.throttled_total += delay_ms > 0
        return delay_ms

    def delay_ms(self, now_ms: int) -> int:
        """Return the time until the share has earned all recorded connections, at most one window. Counts nothing."""
        if self.limit >= UNLIMITED:
            return 0
        self._refill(now_ms)
        # A refill in steps may end slightly below zero.
        if self._tokens >= -1e-9:
            return 0
        if self._share <= 0:
            return self._longest_ms
        wait_ms = ceil(-self._tokens * 1000 * THOUSANDTHS / self._share - 1e-6)
        return max(1, min(wait_ms, self._longest_ms))

    def set_limit(self, limit: int, now_ms: int) -> None:
        """Change the rate of the cluster; the share changes separately."""
        del now_ms
        self.limit = limit
