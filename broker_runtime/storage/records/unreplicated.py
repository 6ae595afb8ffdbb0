"""The ended transactions of a partition whose markers are not replicated yet. Pure.

A high watermark that stood still may pass a hundred thousand markers at once. So two arrays of offsets hold them: a
binary search finds the first marker that is left, and the ones before it are deleted by one move of memory.
"""

from array import array
from bisect import bisect_left


class UnreplicatedMarkers:
    """The markers at or above the high watermark, and the first offsets of their transactions. Both ascend.

    A transaction is left out if one that began earlier ends later: the last stable offset does not depend on it.
    """

    __slots__ = ("_firsts", "markers")

    def __init__(self) -> None:
        self.markers = array("q")
        """Offsets of the markers. This array stays the same object, so that others can see whether it is empty."""
        self._firsts = array("q")

    @property
    def first_offset(self) -> int | None:
        """Return the first offset of the oldest of these transactions; None if there is none."""
        return self._firsts[0] if self._firsts else None

    def add(self, marker: int, first_offset: int) -> None:
        """Add the newest marker, and the first offset of its transaction."""
        kept = bisect_left(self._firsts, first_offset)
        del self.markers[kept:], self._firsts[kept:]
        self.markers.append(marker)
        self._firsts.append(first_offset)

    def forget_below(self, high_watermark: int) -> None:
        """Forget the markers below the high watermark."""
        passed = bisect_left(self.markers, high_watermark)
        del self.markers[:passed], self._firsts[:passed]

    def replace_by(self, other: "UnreplicatedMarkers") -> None:
        """Have the markers of another partition's state."""
        self.markers[:], self._firsts[:] = other.markers, other._firsts

    def clear(self) -> None:
        """Forget all markers."""
        del self.markers[:], self._firsts[:]
