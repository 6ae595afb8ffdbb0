"""Timeouts of requests that wait for a commit, with one event loop timer for all of them."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Deadline:
    """The time by which one request has to be answered.

    The deadline has no effect after `met`, which may be called before the answer is set.
    """

    due_s: float
    answer: asyncio.Future[Any]
    met: bool = False

    @property
    def counts(self) -> bool:
        return not self.met and not self.answer.done()


class Patience:
    """The deadlines of answers with the same `timeout_s`, so that they expire in the order in which they were added.

    An answer that misses its deadline fails with the error that `late` returns. The decision itself remains in effect.
    """

    def __init__(self, timeout_s: float, late: Callable[[], Exception]) -> None:
        self._timeout_s = timeout_s
        self._late = late
        self._waiting: deque[Deadline] = deque()
        self._alarm: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return the number of deadlines kept."""
        return len(self._waiting)

    def add(self, answer: asyncio.Future[Any]) -> Deadline:
        loop, waiting = asyncio.get_running_loop(), self._waiting
        # Deadlines are met nearly in order, so hardly any is kept after it was met.
        while waiting and not waiting[0].counts:
            waiting.popleft()
        deadline = Deadline(loop.time() + self._timeout_s, answer)
        waiting.append(deadline)
        if self._alarm is None:
            self._set_alarm(loop)
        return deadline

    def close(self) -> None:
        """Forget all deadlines without failing their answers: the component that answers has already failed them."""
        self._waiting.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _set_alarm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._alarm = loop.call_at(self._waiting[0].due_s, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._alarm = None
        waiting, now_s = self._waiting, loop.time()
        while waiting and (waiting[0].due_s <= now_s or not waiting[0].counts):
            deadline = waiting.popleft()
            if deadline.counts:
                deadline.answer.set_exception(self._late())
        if waiting:
            self._set_alarm(loop)
