"""Lengths of time slices, in which work blocks the event loop: counts by length, recent maximum, log lines.

Pure; time comes as arguments. Each module that runs time slices owns a `SliceLengths` and records its own. These are
the network layer for sockets and for requests that waited, the broker role for metadata, and `loop_watch` for tasks and
for the rest.
"""

import logging
from bisect import bisect_left
from collections.abc import Sequence

_LOGGER = logging.getLogger(__name__)

BOUNDS_S: Sequence[float] = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Bounds of the histogram of time slices. One client or one change of metadata may block the loop for at most 5 ms."""
_SHORT_S = BOUNDS_S[0]
_SAID_FROM_S = 0.1
"""Shorter time slices occur whenever other processes need the processor; the histogram has them."""
_SAID_EVERY_S = 10.0
_LONGEST_OF_S = 60.0


class SliceLengths:
    """The lengths of the time slices of one kind of `work`. The counts start from zero with the process."""

    __slots__ = ("_counts", "_longest", "_longest_before", "_longest_since_s", "_said_s", "_unsaid", "total_s", "work")

    def __init__(self, work: str) -> None:
        self.work = work
        self.total_s = 0.0
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._longest = self._longest_before = 0.0
        self._longest_since_s = float("-inf")
        self._said_s = float("-inf")
        self._unsaid = 0

    def note(self, length_s: float, now_s: float, what: object = None) -> None:
        """Record a time slice that ended at `now_s`.

        `what`, the last object that was worked on, is formatted only if the slice is logged.
        """
        self.total_s += length_s
        if length_s <= _SHORT_S:
            self._counts[0] += 1
            return
        self._counts[bisect_left(BOUNDS_S, length_s)] += 1
        self._forget_old(now_s)
        self._longest = max(self._longest, length_s)
        if length_s >= _SAID_FROM_S:
            self._log(length_s, now_s, what)

    def cumulated(self) -> list[int]:
        """Return how many time slices were at most as long as each of BOUNDS_S, and how many there were in total."""
        sums, total = [], 0
        for count in self._counts:
            total += count
            sums.append(total)
        return sums

    def longest_s(self, now_s: float) -> float:
        """Return the longest time slice of the last one to two minutes; 0 if none took longer than a millisecond."""
        self._forget_old(now_s)
        return max(self._longest, self._longest_before)

    def _forget_old(self, now_s: float) -> None:
        age_s = now_s - self._longest_since_s
        if age_s >= _LONGEST_OF_S:
            self._longest_before = self._longest if age_s < 2 * _LONGEST_OF_S else 0.0
            self._longest = 0.0
            self._longest_since_s = now_s

    def _log(self, length_s: float, now_s: float, what: object) -> None:
        if now_s - self._said_s < _SAID_EVERY_S:
            self._unsaid += 1
            return
        more = f"; {self._unsaid} more since the last such line" if self._unsaid else ""
        spent = "" if what is None else f", at the end by {what}"
        _LOGGER.warning("the event loop was blocked for %.0f ms by %s%s%s", length_s * 1000, self.work, spent, more)
        self._said_s, self._unsaid = now_s, 0
