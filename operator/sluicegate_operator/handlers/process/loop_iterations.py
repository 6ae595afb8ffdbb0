"""Measures the iterations of an event loop, from the selector's return until the loop calls it again.

Everything that is due waits for the current iteration, so the longest iteration is the longest delay. The processor
time of the loop's thread in an iteration is its own work; for the rest it waited for a processor or for other threads.
"""

import asyncio
import selectors
import time
from collections.abc import Callable

LONG_S = 0.05


class TimedSelector(selectors.DefaultSelector):
    """A selector that measures the iterations of its event loop. Any thread may read the results.

    It reads each clock twice in an iteration.
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, worked: Callable[[], float] = time.thread_time
    ) -> None:
        """`worked` returns the processor time of the loop's thread, in seconds."""
        super().__init__()
        self.longest_s = 0.0
        self.most_worked_s = 0.0
        self.long = 0
        """Number of iterations that worked for longer than LONG_S."""
        self._now_s = clock
        self._worked_s = worked
        self._began_s: float | None = None
        self._had_worked_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._began_s is not None:
            worked_s = self._worked_s() - self._had_worked_s
            if worked_s > LONG_S:
                self.long += 1
            self.longest_s = max(self.longest_s, self._now_s() - self._began_s)
            self.most_worked_s = max(self.most_worked_s, worked_s)
        try:
            return super().select(timeout)
        finally:
            self._began_s, self._had_worked_s = self._now_s(), self._worked_s()


def loop_on(selector: TimedSelector) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return a loop factory for asyncio.Runner, which makes an event loop with this selector."""
    return lambda: asyncio.SelectorEventLoop(selector)
