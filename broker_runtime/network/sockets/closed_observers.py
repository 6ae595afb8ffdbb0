"""Observers of the end of a connection, such as a coordinator that keeps a member for it. Pure."""

from collections.abc import Callable, Iterator

Observer = Callable[[], None]


class TooManyObserversError(RuntimeError):
    """Error if too many observers wait for the end of one connection: one of them probably never removes itself."""


class ClosedObservers:
    """The observers of a connection's end, at most `limit`. Each is kept once, and called once."""

    __slots__ = ("_has_ended", "_limit", "_observers")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._observers: dict[Observer, None] = {}
        self._has_ended = False

    def add(self, observer: Observer) -> None:
        """Call `observer` when the connection ends, or at once if it has ended.

        Raises TooManyObserversError.
        """
        if self._has_ended:
            observer()
            return
        if len(self._observers) >= self._limit and observer not in self._observers:
            raise TooManyObserversError(
                f"{self._limit} parts of the broker already wait for the end of one connection "
                "(sluicegate.connection.observers.max)"
            )
        self._observers[observer] = None

    def remove(self, observer: Observer) -> None:
        """Remove an observer, which may be unknown, or have been called already."""
        self._observers.pop(observer, None)

    def taken(self) -> Iterator[Observer]:
        """Yield each observer once, for the caller to call. Observers removed meanwhile are skipped."""
        self._has_ended = True
        while self._observers:
            observer = next(iter(self._observers))
            del self._observers[observer]
            yield observer
