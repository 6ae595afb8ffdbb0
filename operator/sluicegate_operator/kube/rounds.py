"""One answer for many who ask the same: whoever asks while it is being fetched shares the next one.

So nobody gets an answer that was begun before it asked, and however many ask at a time, two requests are enough.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Rounds(Generic[T]):
    """Belongs to one event loop. What is answered is shared: nobody may change it."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[T]] = {}
        self._next: dict[Hashable, asyncio.Task[T]] = {}

    async def ask(self, key: Hashable, question: Callable[[], Awaitable[T]]) -> T:
        """Raises what `question` raises. One who is cancelled takes nothing away from the others."""
        running = self._running.get(key)
        if running is None:
            task = self._running[key] = asyncio.create_task(self._round(key, question, None))
            task.add_done_callback(_look_at)
        elif key in self._next:
            task = self._next[key]
        else:
            task = self._next[key] = asyncio.create_task(self._round(key, question, running))
            task.add_done_callback(_look_at)
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


def _look_at(task: "asyncio.Task[T]") -> None:
    """An error is whoever's asked; when all of them have gone it is nobody's."""
    if not task.cancelled():
        task.exception()
