"""Who is told that a connection has ended: whoever keeps something for it, as a coordinator does for a member. Pure."""

from collections.abc import Callable, Iterator

Observer = Callable[[], None]


class TooManyObserversError(RuntimeError):
    """So many wait for the end of one connection that one of them must have forgotten to take itself away."""


class ClosedObservers:
    """`limit` observers at most; each is known by itself, and told once."""

    __slots__ = ("_limit", "_observers", "_told")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._observers: dict[Observer, None] = {}
        self._told = False

    def add(self, observer: Observer) -> None:
        """Is called when the connection ends, at once if it has. Raises TooManyObserversError."""
        if self._told:
            observer()
            return
        if len(self._observers) >= self._limit and observer not in self._observers:
            raise TooManyObserversError(
                f"{self._limit} observers wait for the end of one connection (sluicegate.connection.observers.max)"
            )
        self._observers[observer] = None

    def remove(self, observer: Observer) -> None:
        """Not told any more; one that was never added, or has been told, is no mistake."""
        self._observers.pop(observer, None)

    def taken(self) -> Iterator[Observer]:
        """Those to be told now, each once; one that is taken away meanwhile is not."""
        self._told = True
        while self._observers:
            observer = next(iter(self._observers))
            del self._observers[observer]
            yield observer
