"""What a build says of itself while it lasts: where it is, and how long it may take yet."""

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

_START_ROWS_PER_S = 150_000.0


class Progress:
    """`monotonic` in seconds. The estimate is by the rows of events that are left and the rate so far, or `rows_per_s`
    of the last build."""

    def __init__(self, monotonic: Callable[[], float], rows_per_s: float | None = None) -> None:
        self._monotonic = monotonic
        self._began_s = monotonic()
        self._expected = rows_per_s or _START_ROWS_PER_S
        self._rows = self._done = 0

    @property
    def took_s(self) -> float:
        return self._monotonic() - self._began_s

    @property
    def rows_per_s(self) -> float:
        """Of this build so far; what was expected where it had nothing to do."""
        return self._done / self.took_s if self._done and self.took_s > 0 else self._expected

    def begin(self, rows: int) -> None:
        """So many rows of events are to be read."""
        self._rows = rows

    def step(self, what: str, rows: int) -> None:
        left_s = (self._rows - self._done) / self.rows_per_s
        told = f", {rows:,} rows" if rows else ""
        more = f"; about {left_s:.0f} s left" if rows else ""
        log.info("%s%s%s", what, told, more)

    def done(self, rows: int) -> None:
        self._done += rows
