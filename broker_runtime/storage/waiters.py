"""Who waits for an offset of a log to be passed: long polls and acks=all. Pure; each callback is called once.

A callback that raises ends with that: whoever appends, and the others who wait, hear nothing of it.
"""

import logging
from collections.abc import Callable

_LOGGER = logging.getLogger(__name__)


class OffsetWaiters:
    """`waiting` is public because most appends find it empty, and then need no call."""

    __slots__ = ("_last_number", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[int, tuple[int, Callable[[], None]]] = {}
        self._last_number = 0

    def add(self, offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        """The result takes it back."""
        self._last_number += 1
        number = self._last_number
        self.waiting[number] = (offset, callback)

        def remove() -> None:
            self.waiting.pop(number, None)

        return remove

    def wake(self, end: int) -> None:
        """Call those whose offset lies below `end`. A callback may add others and take others back."""
        for number, (offset, callback) in list(self.waiting.items()):
            if offset < end and self.waiting.pop(number, None) is not None:
                _call(callback)

    def wake_all(self) -> None:
        for number, (_, callback) in list(self.waiting.items()):
            if self.waiting.pop(number, None) is not None:
                _call(callback)


def _call(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:
        _LOGGER.exception("one of those who waited for an offset has failed; the log and the others go on")
