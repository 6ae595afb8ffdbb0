"""The progress messages of a job: how far a build is and how long it may still take; batches that were followed."""

import logging
from collections.abc import Callable
from threading import Lock
from typing import Final

log = logging.getLogger(__name__)

_TELL_US: Final = 5_000_000
"""Minimum time between two messages on batches."""


class Progress:
    """The progress of a build, for users. `monotonic` returns seconds.

    The remaining time is estimated from the rows of events left and the rate so far, or that of the last build. The
    time that the last build needed for other work is added. A first build has no estimate before it has read some rows.
    """

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
        """Return the rows a second of this build's reads, or of the last build if this one had nothing to read.

        None if the rate is unknown.
        """
        return self._done / self._reading_s if self._done and self._reading_s > 0 else self._former_rows_per_s

    @property
    def beside_s(self) -> float:
        """Return the seconds so far for work other than reading events."""
        return self._monotonic() - self._began_s - self._reading_s

    def begin(self, rows: int) -> None:
        """Set the number of event rows to read."""
        self._rows = rows

    def step(self, what: str, rows: int) -> None:
        self._step_s = self._monotonic()
        told = f", {rows:,} rows" if rows else ""
        log.info("%s%s%s", what, told, self._left() if rows else "")

    def done(self, rows: int) -> None:
        """Record that the last step has read this number of event rows."""
        self._done += rows
        self._reading_s += self._monotonic() - self._step_s

    def _left(self) -> str:
        if self.rows_per_s is None:
            return ""
        left_s = (self._rows - self._done) / self.rows_per_s + max(self._former_beside_s - self.beside_s, 0)
        return f"; about {left_s:.0f} s left"


class BatchNews:
    """Logs batches that were published, from any thread; several in short succession share one line."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._lock = Lock()
        self._told_us = -_TELL_US
        self._batches = self._rows = 0

    def published(self, rows: int) -> None:
        """Count a batch, and log the counted batches if the last line is old enough.

        A batch without rows does not count.
        """
        if not rows:
            return
        with self._lock:
            self._batches += 1
            self._rows += rows
            if self._now_us() - self._told_us >= _TELL_US:
                log.info("published %s rows of usage in %d batches", f"{self._rows:,}", self._batches)
                self._told_us = self._now_us()
                self._batches = self._rows = 0
