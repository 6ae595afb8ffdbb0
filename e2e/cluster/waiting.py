"""Waits for a condition with a deadline, and with a sentence that names the awaited condition."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_INTERVAL_S = 0.05
"""Short compared with every awaited change (processes, controllers), long compared with reading a file."""

PATIENCE_S = 90.0
"""Every awaited change takes seconds on an idle machine; a loaded one may need many more."""


class NotInTimeError(AssertionError):
    """A condition did not become true before its deadline; an AssertionError, so that pytest shows it as a failure."""


def wait_for(
    what: str, look: Callable[[], T], *, timeout_s: float = PATIENCE_S, interval_s: float = POLL_INTERVAL_S
) -> T:
    """Call `look` until it returns a true value, and return that. An AssertionError from it counts as 'not yet'."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    last = ""
    while True:
        try:
            found = look()
            if found:
                return found
            last = f"last answer {found!r}"
        except AssertionError as reason:
            last = str(reason)
        if time.monotonic() >= deadline:
            raise NotInTimeError(f"not within {timeout_s:g} s: {what} ({last})")
        pause.wait(interval_s)
