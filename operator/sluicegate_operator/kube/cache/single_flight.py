"""Shares answers between concurrent callers with the same key: a caller that asks during a fetch gets the next one.

So no caller gets an answer to a request that began before its call, and two requests are enough for any number of
concurrent callers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Lets concurrent callers share the answer to a question, by key. Belongs to one event loop.

    No caller may change the shared answer.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[T]] = {}
        self._next: dict[Hashable, asyncio.Task[T]] = {}

    async def ask(self, key: Hashable, question: Callable[[], Awaitable[T]]) -> T:
        """Return an answer to `question` that was asked after this call. Raises the errors of `question`.

        Callers with the same `key` that wait together share the answer. Cancelling one caller does not affect the
        others.
        """
        running = self._running.get(key)
        if running is None:
            task = self._running[key] = asyncio.create_task(self._round(key, question, None))
            task.add_done_callback(_retrieve_error)
        elif key in self._next:
            task = self._next[key]
        else:
            task = self._next[key] = asyncio.create_task(self._round(key, question, running))
            task.add_done_callback(_retrieve_error)
        return await asyncio.shield(task)

    async def _round(self, key: Hashable, question: Callable[[], Awaitable[T]], before: asyncio.Task[T] | None) -> T:
        if before is not None:
            await asyncio.wait({before})
            self._running[key] = self._next.pop(key)
        try:
            return await question()
        finally:
            if self._running.get(key) is asyncio.current_task():
                del self._running[key]


def _retrieve_error(task: "asyncio.Task[T]") -> None:
    """Mark an error as retrieved: its callers receive it, and if all of them were cancelled it is dropped."""
    if not task.cancelled():
        task.exception()
