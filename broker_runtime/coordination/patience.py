"""Who waits for a commit does so for a certain time only. One alarm of the event loop for all of them."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Deadline:
    """Of one answer. It counts no more once it is `met`, which may be before the answer is there."""

    due_s: float
    answer: asyncio.Future[Any]
    met: bool = False

    @property
    def counts(self) -> bool:
        return not self.met and not self.answer.done()


class Patience:
    """Owns the deadlines of answers that all may take `timeout_s`, so that they come due in their order.

    An answer that is late gets the error that `late` makes; what was decided stays decided.
    """

    def __init__(self, timeout_s: float, late: Callable[[], Exception]) -> None:
        self._timeout_s = timeout_s
        self._late = late
        self._waiting: deque[Deadline] = deque()
        self._alarm: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Deadlines that are kept."""
        return len(self._waiting)

    def add(self, answer: asyncio.Future[Any]) -> Deadline:
        loop, waiting = asyncio.get_running_loop(), self._waiting
        # Deadlines are met nearly in their order: hardly any is kept beyond that.
        while waiting and not waiting[0].counts:
            waiting.popleft()
        deadline = Deadline(loop.time() + self._timeout_s, answer)
        waiting.append(deadline)
        if self._alarm is None:
            self._set_alarm(loop)
        return deadline

    def close(self) -> None:
        """Nobody is told; those who wait have heard of the end from whoever was to answer."""
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
