"""Reports the limits on connections to the audit log: all of them from time to time, and each change at once."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Protocol

from broker_runtime.clock import Timer
from broker_runtime.observers.surroundings import LimitsToObserve
from connection_limits.recorded.rows import IP, MEMBER, LimitChange, LimitRow

_ROWS_PER_SLICE: Final = 20
"""Rows recorded in one iteration of the event loop: with a hundred members each they take about a millisecond."""
_PAUSE_S: Final = 0.01


class LimitRows(Protocol):
    """The part of the audit log that records limits."""

    def record_limits(self, change: LimitChange, /) -> None: ...

    def record_limit_rows(self, at_s: float, rows: Iterator[LimitRow], left: int, /) -> None: ...


class LimitsLog:
    """The recording of limits: a report of all limits from time to time, and each change at once.

    A report has the limits of one moment, however long its recording takes.
    """

    def __init__(
        self,
        log: LimitRows,
        limits: LimitsToObserve,
        call_later: Callable[[float, Callable[[], None]], Timer],
        every_s: float,
    ) -> None:
        self._log = log
        self._limits = limits
        self._call_later = call_later
        self._every_s = every_s
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Report all limits, and each change from now on. On the event loop."""
        self._limits.observe(self._log.record_limits)
        self._report()

    def _report(self) -> None:
        at_s, rows = self._limits.in_force()
        self._slice(at_s, iter(rows), len(rows))

    def _slice(self, at_s: float, rows: Iterator[LimitRow], left: int) -> None:
        self._log.record_limit_rows(at_s, islice(rows, _ROWS_PER_SLICE), left)
        left -= _ROWS_PER_SLICE
        if left > 0:
            self._timer = self._call_later(_PAUSE_S, lambda: self._slice(at_s, rows, left))
        else:
            self._timer = self._call_later(self._every_s, self._report)

    def close(self) -> None:
        """Report nothing any more. On the event loop."""
        self._limits.forget(self._log.record_limits)
        if self._timer is not None:
            self._timer.cancel()


def shown_row(row: LimitRow, shown: Callable[[str], str]) -> LimitRow:
    """Return the row as the log may show it: `shown` replaces an address, for example by a keyed hash.

    Ranges and the default entity are no addresses of clients, and stay.
    """
    entity = row.entity
    if entity is not None and entity.startswith(IP) and not entity.endswith(">"):
        row = row._replace(entity=IP + shown(entity.removeprefix(IP)))
    if row.key == MEMBER and row.text is not None:
        row = row._replace(text=" ".join(_shown_member(member, shown) for member in row.text.split()))
    return row


def _shown_member(text: str, shown: Callable[[str], str]) -> str:
    member, has_number, number = text.partition("=")
    return text if "/" in member else shown(member) + has_number + number
