"""How long the turns of an event loop take: from its selector's answer until the loop asks it again.

Whatever is due waits for the turn that runs, so the longest turn is the longest that anything was held up.
"""

import asyncio
import selectors
import time
from collections.abc import Callable

LONG_S = 0.05


class TimedSelector(selectors.DefaultSelector):
    """Two readings of the clock a turn. Any thread may ask."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__()
        self.longest_s = 0.0
        self.long = 0
        """How many turns took longer than LONG_S."""
        self._now_s = clock
        self._began_s: float | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._began_s is not None:
            took_s = self._now_s() - self._began_s
            if took_s > LONG_S:
                self.long += 1
            if took_s > self.longest_s:
                self.longest_s = took_s
        try:
            return super().select(timeout)
        finally:
            self._began_s = self._now_s()


def loop_on(selector: TimedSelector) -> Callable[[], asyncio.AbstractEventLoop]:
    """For asyncio.Runner."""
    return lambda: asyncio.SelectorEventLoop(selector)
