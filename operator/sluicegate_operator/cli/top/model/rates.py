"""Rates from counters of two looks. Pure."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

Number = TypeVar("Number", int, float)


def growth_of(before: float | None, total: float, passed_s: float) -> float | None:
    """Return the growth of a counter per second; None without a value before.

    A counter that became smaller belongs to a process that restarted: then all of it is growth.
    """
    if before is None or passed_s == 0:
        return None
    return (total - before if total >= before else total) / passed_s


class Rates:
    """The counters of the last look, and the growth of counters since then.

    Call `begin` with the time of each look, and then `growth` for each counter. A counter that a look does not have is
    forgotten.
    """

    def __init__(self) -> None:
        self._before: dict[Hashable, float] = {}
        self._now: dict[Hashable, float] = {}
        self._at_s: float | None = None
        self.passed_s = 0.0
        """Seconds between the last two looks; 0 at the first look."""

    def begin(self, at_s: float) -> None:
        self.passed_s = 0.0 if self._at_s is None else max(0.0, at_s - self._at_s)
        self._at_s = at_s
        self._before, self._now = self._now, {}

    def growth(self, key: Hashable, total: float) -> float | None:
        """Return the growth of a counter per second; None at its first look."""
        self._now[key] = total
        return growth_of(self._before.get(key), total, self.passed_s)


def sum_of(values: Iterable[Number | None]) -> Number | None:
    """Return the sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None
