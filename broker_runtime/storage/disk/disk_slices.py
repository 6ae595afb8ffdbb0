"""Splits a thread's work into time slices: between two of them the event loop, which shares the interpreter, runs."""

from collections.abc import Callable, Iterator

SLICE_S = 0.002
"""Approximate length of a time slice of work, in seconds.

The work blocks the interpreter for that time, so the event loop waits.
"""
Work = Callable[[], None]
Steps = Iterator[int]
"""Work that yields how many bytes were read and written. After each yield another thread may continue."""


class DiskSlices:
    """Work for a thread, cut into time slices by iteration."""

    def __init__(self, steps: Steps, monotonic: Callable[[], float]) -> None:
        self._steps = steps
        self._monotonic = monotonic
        self.bytes = 0
        self._is_over = False

    def __iter__(self) -> Iterator[Work]:
        while not self._is_over:
            yield self._slice

    def _slice(self) -> None:
        end_s = self._monotonic() + SLICE_S
        for count in self._steps:
            self.bytes += count
            if self._monotonic() >= end_s:
                return
        self._is_over = True
