"""The only reader of system time in the broker.

Decision modules take `now` as an argument; shells get a `Clock`.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time. Tests and the simulation implement one."""

    def monotonic(self) -> float:
        """Return seconds that never decrease; for intervals, deadlines and rates."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch; for record timestamps and retention."""
        ...


class Timer(Protocol):
    """A scheduled call, as `call_later` of the event loop returns it."""

    def cancel(self) -> None: ...


class SystemClock:
    """The time of the operating system."""

    monotonic = staticmethod(time.monotonic)
    """The function itself: each request calls it several times."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
