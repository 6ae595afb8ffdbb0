"""A store that fails again and again: what the log says of it, and when people are to be told.

Knows neither the store nor the clock: the time comes as an argument.
"""

import logging

from broker_runtime.controller.journal.store import StoreError, StoreRefusedError
from broker_runtime.errors import detached

log = logging.getLogger(__name__)

SAID_EVERY = 20
"""Failures in a row of which one is logged, after the first."""


class Trouble:
    """Counts one store's failures in a row; times in seconds of one clock. Nothing of it is durable."""

    def __init__(self, what: str, patience_s: float) -> None:
        """`what` begins the sentence; after `patience_s` of nothing but failures it is worth telling."""
        self._what = what
        self._patience_s = patience_s
        self._failures = 0
        self._since_s = 0.0
        self._last: StoreError | None = None

    def failed(self, error: StoreError, now_s: float) -> None:
        if not self._failures:
            self._since_s = now_s
        self._failures += 1
        self._last = detached(error)
        if self._failures % SAID_EVERY == 1:
            log.warning("%s, attempt %d in %.0f s: %s", self._what, self._failures, now_s - self._since_s, error)

    def ended(self) -> None:
        if self._failures >= SAID_EVERY:
            log.info("%s: that is over, after %d attempts", self._what, self._failures)
        self._failures, self._last = 0, None

    def reason(self, now_s: float) -> str | None:
        """None while it does not matter; a store that refuses will not think better of it by itself."""
        if self._last is None:
            return None
        lasted_s = now_s - self._since_s
        if lasted_s < self._patience_s and not isinstance(self._last, StoreRefusedError):
            return None
        return f"{self._what} for {lasted_s:.0f} s: {self._last}"
