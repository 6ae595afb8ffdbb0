"""A set of whole numbers, stored as ranges. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class NumberRanges:
    """A set of ranges from a first to a last number. Adjacent ranges are merged.

    A query takes logarithmic time in the number of ranges, and so does adding at the end.
    """

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in sorted(ranges):
            self.add(first, last)

    def add(self, first: int, last: int) -> None:
        begin = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if begin < end:
            first, last = min(first, self._firsts[begin]), max(last, self._lasts[end - 1])
        self._firsts[begin:end] = [first]
        self._lasts[begin:end] = [last]

    def has(self, first: int, last: int) -> bool:
        """Return whether every number from `first` to `last` is in the set."""
        place = bisect_right(self._firsts, first) - 1
        return place >= 0 and last <= self._lasts[place]

    def touch(self, first: int, last: int) -> bool:
        """Return whether any number from `first` to `last` is in the set."""
        place = bisect_left(self._lasts, first)
        return place < len(self._firsts) and self._firsts[place] <= last

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._lasts, strict=True)
