"""Work of a thread in turns: between two of them the event loop runs, which shares the interpreter."""

from collections.abc import Callable, Iterator

TURN_S = 0.002
"""A turn holds the interpreter for about so long, and the event loop may wait for as long."""
Work = Callable[[], None]
Steps = Iterator[int]
"""Says now and then how many bytes were read and written; between two of these another thread may continue."""


class Turns:
    """`bytes` were read and written in all turns so far."""

    def __init__(self, steps: Steps, monotonic: Callable[[], float]) -> None:
        self._steps = steps
        self._monotonic = monotonic
        self.bytes = 0
        self._is_over = False

    def __iter__(self) -> Iterator[Work]:
        while not self._is_over:
            yield self._turn

    def _turn(self) -> None:
        end_s = self._monotonic() + TURN_S
        for count in self._steps:
            self.bytes += count
            if self._monotonic() >= end_s:
                return
        self._is_over = True
