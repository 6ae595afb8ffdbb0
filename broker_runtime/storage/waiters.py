"""Who waits for an offset of a log to be passed: long polls and acks=all. Pure; each callback is called once."""

from collections.abc import Callable


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
                callback()

    def wake_all(self) -> None:
        for number, (_, callback) in list(self.waiting.items()):
            if self.waiting.pop(number, None) is not None:
                callback()
