"""The only reader of system time in the broker.

Decision modules take `now` as an argument; shells get a `Clock`.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Where all parts have the time from; tests and the simulation play one."""

    def monotonic(self) -> float:
        """Seconds, never going back; for intervals, deadlines and rates."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the epoch; for record timestamps and retention."""
        ...


class Timer(Protocol):
    """A call that is still to come, as the event loop's `call_later` returns it."""

    def cancel(self) -> None: ...


class SystemClock:
    """The time of the operating system."""

    monotonic = staticmethod(time.monotonic)
    """As it is: each request asks several times."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
