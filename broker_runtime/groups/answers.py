"""Answers that are not there when their request was decided: a join that waits for others, a sync for its leader. Pure.

A decision returns a `Later`. Who decides its result sends it by the `Outbox`, which the shard empties when everything
that was decided is durable: so no answer tells of what a coordinator that takes over would not know.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from broker_runtime.errors import KafkaError

T = TypeVar("T")


class Later(Generic[T]):
    """One answer, given once; whoever waits for it gives `then`. A client that has gone away makes it `abandoned`."""

    __slots__ = ("_then", "abandoned", "result")

    def __init__(self) -> None:
        self.result: T | KafkaError | None = None
        """None until the answer has left."""
        self.abandoned = False
        self._then: Callable[[T | KafkaError], None] | None = None

    @classmethod
    def of(cls, result: T) -> "Later[T]":
        """One that is there already: it leaves with the decision itself."""
        later: Later[T] = cls()
        later.give(result)
        return later

    def then(self, callback: Callable[[T | KafkaError], None]) -> None:
        """Called with the answer, at once where it is there already."""
        if self.result is not None:
            callback(self.result)
        else:
            self._then = callback

    def give(self, result: T | KafkaError) -> None:
        """The first counts. For the outbox, and for what nobody else has seen yet."""
        if self.result is not None:
            return
        self.result = result
        if self._then is not None:
            self._then(result)
            self._then = None


class Outbox:
    """Answers that wait until what they tell of is durable."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def send(self, later: Later[T], result: T | KafkaError) -> None:
        self.then(lambda: later.give(result))

    def then(self, action: Callable[[], None]) -> None:
        """What else is to be done only then, in the same order."""
        self._waiting.append(action)

    def flush(self) -> None:
        """Everything decided is durable: let the answers go, in the order in which they were sent."""
        waiting, self._waiting = self._waiting, []
        for give in waiting:
            give()

    def drop(self) -> None:
        """Nobody knows whether what they tell of is durable; their requests are refused by whoever holds them."""
        self._waiting.clear()
