"""Answers that are sent after the decision of their request, such as a join that waits for other members. Pure.

A decision returns a `DeferredAnswer`. A later decision gives it the result through the `Outbox`, which the shard
flushes when all decisions are durable. So no answer depends on records that the next coordinator would not have.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from broker_runtime.errors import KafkaError

T = TypeVar("T")


class DeferredAnswer(Generic[T]):
    """An answer to a request that is given once, perhaps later than its decision.

    The waiting task passes a callback to `then`. The answer is `abandoned` if the client has disconnected.
    """

    __slots__ = ("_then", "abandoned", "result")

    def __init__(self) -> None:
        self.result: T | KafkaError | None = None
        """The answer; None until it is given."""
        self.abandoned = False
        self._then: Callable[[T | KafkaError], None] | None = None

    @classmethod
    def of(cls, result: T) -> "DeferredAnswer[T]":
        """Return an answer that is already known, which is sent together with the decision itself."""
        later: DeferredAnswer[T] = cls()
        later.give(result)
        return later

    def then(self, callback: Callable[[T | KafkaError], None]) -> None:
        """Call `callback` with the answer, immediately if the answer was already given."""
        if self.result is not None:
            callback(self.result)
        else:
            self._then = callback

    def give(self, result: T | KafkaError) -> None:
        """Give the answer; only the first call counts.

        Only the outbox calls this, and code that has not shared the answer yet.
        """
        if self.result is not None:
            return
        self.result = result
        if self._then is not None:
            self._then(result)
            self._then = None


class Outbox:
    """The answers of a coordinator that wait until the records they depend on are durable."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def send(self, later: DeferredAnswer[T], result: T | KafkaError) -> None:
        self.then(lambda: later.give(result))

    def then(self, action: Callable[[], None]) -> None:
        """Run `action` when the records are durable, in the same order as the answers."""
        self._waiting.append(action)

    def flush(self) -> None:
        """Give the answers in the order in which they were sent: all decisions are now durable."""
        waiting, self._waiting = self._waiting, []
        for give in waiting:
            give()

    def drop(self) -> None:
        """Drop the answers, whose records may or may not be durable. `Term.end` refuses their requests."""
        self._waiting.clear()
