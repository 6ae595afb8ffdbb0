"""Track a store that fails repeatedly: when to log it, and when to report it as unavailable.

Knows neither the store nor the clock: the time comes as an argument.
"""

import logging

from broker_runtime.controller.journal.store import StoreError, StoreRefusedError
from broker_runtime.errors import detached

log = logging.getLogger(__name__)

SAID_EVERY = 20
"""Ratio of logging: one of this many consecutive failures is logged, after the first."""


class Trouble:
    """The consecutive failures of the store of the metadata journal.

    Times are seconds of one clock; nothing is durable.
    """

    def __init__(self, what: str, patience_s: float) -> None:
        """Create a counter without failures.

        `what` begins the sentence that `reason` returns after `patience_s` of failures only.
        """
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
            log.info("%s: recovered after %d attempts", self._what, self._failures)
        self._failures, self._last = 0, None

    def reason(self, now_s: float) -> str | None:
        """Return a sentence about the failure, or None while it lasts only a short time.

        A refusal is reported at once, because it will persist.
        """
        if self._last is None:
            return None
        lasted_s = now_s - self._since_s
        if lasted_s < self._patience_s and not isinstance(self._last, StoreRefusedError):
            return None
        return f"{self._what} for {lasted_s:.0f} s: {self._last}"
