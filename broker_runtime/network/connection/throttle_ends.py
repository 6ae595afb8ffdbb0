"""Timers of connections whose clients are throttled. Shell."""

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable


class ThrottleEnds:
    """Owns at most one timer per connection; most connections never have one."""

    __slots__ = ("_loop", "_timers")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._timers: dict[int, TimerHandle] = {}
        """By connection id."""

    def set(self, connection_id: int, delay_s: float, callback: Callable[[], None]) -> None:
        """Call `callback` after `delay_s`, and not at an earlier time that was set before."""
        self.forget(connection_id)
        self._timers[connection_id] = self._loop.call_later(delay_s, callback)

    def forget(self, connection_id: int) -> None:
        """Cancel the timer of the connection, if it has one."""
        timer = self._timers.pop(connection_id, None)
        if timer is not None:
            timer.cancel()
