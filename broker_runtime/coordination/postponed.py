"""Decisions that wait for another decision of the same coordinator, and are made right after it, in the same commit.

A client that repeats a refused request would wait for its own pause, and for a further commit. How many decisions wait
is limited together with the queue of the runtime, which also ends them with its term.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import NamedTuple, NoReturn

from broker_runtime.coordination.decider import Waiting
from broker_runtime.coordination.seam import Postponement
from broker_runtime.errors import KafkaError


class _Entry(NamedTuple):
    """A decision that waits, and the timer that refuses it if it waits for too long."""

    waiting: Waiting
    alarm: asyncio.TimerHandle


class PostponedDecisions:
    """The decisions of a runtime that wait for others, by the key that a later decision releases. Soft state."""

    def __init__(self, timeout_s: float) -> None:
        """`timeout_s` is the longest time that a decision waits, in seconds."""
        self.on_late: Callable[[Waiting], None] = _nobody
        """Queues a decision again that has waited for too long, and now refuses its request."""
        self._timeout_s = timeout_s
        self._entries: dict[Hashable, list[_Entry]] = {}
        self._released: deque[Waiting] = deque()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, waiting: Waiting, why: Postponement) -> None:
        """Keep a decision that has just been postponed, until `release` of its key or the timeout."""
        alarm = asyncio.get_running_loop().call_later(self._timeout_s, self._refuse, waiting, why)
        self._entries.setdefault(why.key, []).append(_Entry(waiting, alarm))
        self._count += 1

    def release(self, key: Hashable) -> None:
        """Let the decisions that wait for `key` be made next. Call this within the decision that they wait for."""
        for waiting, alarm in self._removed(key):
            alarm.cancel()
            if waiting.answer is not None and not waiting.answer.done():
                self._released.append(waiting)

    def next_released(self) -> Waiting | None:
        """Remove and return a released decision, in the order in which they were postponed; None without any."""
        return self._released.popleft() if self._released else None

    def clear(self) -> list[Waiting]:
        """Remove and return all decisions: the term has ended."""
        found = list(self._released)
        self._released.clear()
        for key in list(self._entries):
            for waiting, alarm in self._removed(key):
                alarm.cancel()
                found.append(waiting)
        return found

    def _removed(self, key: Hashable) -> list[_Entry]:
        found = self._entries.pop(key, [])
        self._count -= len(found)
        return found

    def _refuse(self, waiting: Waiting, why: Postponement) -> None:
        """Let a decision that has waited for too long refuse its request, with the next commit as any refusal."""
        left = [entry for entry in self._entries[why.key] if entry.waiting is not waiting]
        self._count -= 1
        if left:
            self._entries[why.key] = left
        else:
            del self._entries[why.key]
        if waiting.answer is not None and not waiting.answer.done():
            waiting.decide = partial(_refused, why)
            self.on_late(waiting)


def _refused(why: Postponement, _: object) -> NoReturn:
    raise KafkaError(why.code, why.text)


def _nobody(_: Waiting) -> None:
    raise RuntimeError("a decision has waited for too long, but no runtime is attached to these decisions")
