"""How long to wait before the next attempt. Pure."""

from collections.abc import Callable


class Backoff:
    """Doubles from the one attempt to the next. `share` is a number between 0 and 1, so that not all come at once."""

    def __init__(self, min_s: float, max_s: float, share: Callable[[], float]) -> None:
        self._min_s, self._max_s, self._share = min_s, max_s, share
        self._next_s = min_s

    def next_s(self) -> float:
        wait_s, self._next_s = self._next_s, min(2 * self._next_s, self._max_s)
        return wait_s * (0.5 + self._share() / 2)

    def reset(self) -> None:
        self._next_s = self._min_s
