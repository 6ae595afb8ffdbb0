"""The wait before the next attempt. Pure."""

from collections.abc import Callable

_SOON_S, _SHARE = 0.2, 1 / 8


class Backoff:
    """The waits between attempts, each twice as long as the previous one.

    With `soon`, a wait is at most a fifth of a second, or an eighth of all waits before it if that is longer: so a
    broker that recovers is found quickly. `share` returns a number between 0 and 1 that spreads the attempts of several
    consumers.
    """

    def __init__(self, min_s: float, max_s: float, share: Callable[[], float]) -> None:
        self._min_s, self._max_s, self._share = min_s, max_s, share
        self._next_s = min_s
        self._waited_s = 0.0

    def next_s(self, *, soon: bool = False) -> float:
        wait_s = min(self._next_s, max(self._min_s, _SOON_S, self._waited_s * _SHARE)) if soon else self._next_s
        self._next_s = min(2 * wait_s, self._max_s)
        wait_s *= 0.5 + self._share() / 2
        self._waited_s += wait_s
        return wait_s

    def reset(self) -> None:
        self._next_s, self._waited_s = self._min_s, 0.0
