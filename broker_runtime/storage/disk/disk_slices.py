"""Splits a thread's work into time slices: between two of them the event loop, which shares the interpreter, runs."""

from collections.abc import Callable, Iterator

SLICE_S = 0.002
"""Approximate length of a time slice, in seconds. It blocks the interpreter, and the event loop waits as long."""
Work = Callable[[], None]
Steps = Iterator[int]
"""Yields now and then how many bytes were read and written; after each yield another thread may continue."""


class DiskSlices:
    """Iterates over work for a thread in time slices."""

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
