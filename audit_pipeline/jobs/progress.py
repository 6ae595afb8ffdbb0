"""What a job says of itself while it lasts: where a build is and how long it may take yet, what was followed."""

import logging
from collections.abc import Callable
from threading import Lock
from typing import Final

log = logging.getLogger(__name__)

_TELL_US: Final = 5_000_000
"""Batches are told no more often."""


class Progress:
    """`monotonic` in seconds. What is left is estimated by the rows of events that are left, at the rate so far or at
    that of the last build, and by what the last build needed beside reading events; of a first build nothing is known
    before it has read some."""

    def __init__(
        self, monotonic: Callable[[], float], rows_per_s: float | None = None, beside_s: float | None = None
    ) -> None:
        self._monotonic = monotonic
        self._began_s = self._step_s = monotonic()
        self._former_rows_per_s = rows_per_s
        self._former_beside_s = beside_s or 0.0
        self._rows = self._done = 0
        self._reading_s = 0.0

    @property
    def rows_per_s(self) -> float | None:
        """Of this build while it read events, of the former one where it had nothing to read; None when neither has."""
        return self._done / self._reading_s if self._done and self._reading_s > 0 else self._former_rows_per_s

    @property
    def beside_s(self) -> float:
        """So far, other than reading events."""
        return self._monotonic() - self._began_s - self._reading_s

    def begin(self, rows: int) -> None:
        """So many rows of events are to be read."""
        self._rows = rows

    def step(self, what: str, rows: int) -> None:
        self._step_s = self._monotonic()
        told = f", {rows:,} rows" if rows else ""
        log.info("%s%s%s", what, told, self._left() if rows else "")

    def done(self, rows: int) -> None:
        """The step before was reading so many rows of events."""
        self._done += rows
        self._reading_s += self._monotonic() - self._step_s

    def _left(self) -> str:
        if self.rows_per_s is None:
            return ""
        left_s = (self._rows - self._done) / self.rows_per_s + max(self._former_beside_s - self.beside_s, 0)
        return f"; about {left_s:.0f} s left"


class BatchNews:
    """A line for batches that were published, of any thread; several that come at once have one together."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._lock = Lock()
        self._told_us = -_TELL_US
        self._batches = self._rows = 0

    def published(self, rows: int) -> None:
        """A batch without rows is no news."""
        if not rows:
            return
        with self._lock:
            self._batches += 1
            self._rows += rows
            if self._now_us() - self._told_us >= _TELL_US:
                log.info("published %s rows of rollups in %d batches", f"{self._rows:,}", self._batches)
                self._told_us = self._now_us()
                self._batches = self._rows = 0
