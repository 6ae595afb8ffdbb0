"""The only reader of system time in the broker.

Decision modules take `now` as an argument; shells get a `Clock`. Tests pass `ManualClock`.
"""

import time
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds, never going back; for intervals, deadlines and rates."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the epoch; for record timestamps and retention."""
        ...


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told to; monotonic and wall time move together."""

    def __init__(self, *, monotonic: float = 1000.0, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic = monotonic
        self._wall_ms = float(wall_ms)

    def monotonic(self) -> float:
        return self._monotonic

    def wall_ms(self) -> int:
        return round(self._wall_ms)

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time does not go back; use set_wall_ms for a wall clock jump")
        self._monotonic += seconds
        self._wall_ms += seconds * 1000

    def set_wall_ms(self, wall_ms: int) -> None:
        self._wall_ms = float(wall_ms)
