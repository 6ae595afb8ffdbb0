"""Watch the event loop of this process: how long steps of tasks block it, and how late its timers run. Shell.

asyncio's own watch (`slow_callback_duration`) works in debug mode only, and uvloop has none. Callbacks of sockets and
of metadata record their own lengths. Anything else that blocks the loop shows as a timer that runs too late.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from broker_runtime.node.process.garbage import GarbageCollector
from broker_runtime.slicing.slice_lengths import SliceLengths

_INTERVAL_S = 0.02
_GARBAGE_INTERVAL_S = 1.0

T = TypeVar("T")


class LoopWatch:
    """Measures what blocks the event loop, from `start` on.

    `tasks` has the steps of tasks that began after that, `garbage` the garbage collections, which stop all threads, and
    `delays` the lateness of a timer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float]) -> None:
        self._loop = loop
        self._now = now
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = self._garbage_due_s = 0.0
        self.tasks = SliceLengths("tasks")
        self.garbage = GarbageCollector(now)
        self.delays = SliceLengths("unknown work between two checks")

    def start(self) -> None:
        self._loop.set_task_factory(self._new_task)
        self.garbage.start()
        self._schedule()

    def stop(self) -> None:
        """Stop measuring the event loop. A second call does nothing."""
        if self._timer is not None:
            self._loop.set_task_factory(None)
            self.garbage.stop()
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        self._due_s = self._now() + _INTERVAL_S
        self._timer = self._loop.call_later(_INTERVAL_S, self._check)

    def _check(self) -> None:
        now_s = self._now()
        self.delays.note(max(now_s - self._due_s, 0.0), now_s)
        if now_s >= self._garbage_due_s:
            self._garbage_due_s = now_s + _GARBAGE_INTERVAL_S
            self.garbage.tick()
        self._schedule()

    def _new_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(_Measured(coro, self.tasks, self._now), loop=loop, **options)


class _Measured(Coroutine[Any, Any, T]):
    """A coroutine whose steps are measured. Other attributes, for a task's repr and stack, are the original's."""

    __slots__ = ("_coro", "_lengths", "_now")

    def __init__(self, coro: Coroutine[Any, Any, T], lengths: SliceLengths, now: Callable[[], float]) -> None:
        self._coro = coro
        self._lengths = lengths
        self._now = now

    def send(self, value: Any) -> Any:
        begin_s = self._now()
        try:
            return self._coro.send(value)
        finally:
            now_s = self._now()
            self._lengths.note(now_s - begin_s, now_s, self)

    def throw(self, *error: Any) -> Any:
        begin_s = self._now()
        try:
            return self._coro.throw(*error)
        finally:
            now_s = self._now()
            self._lengths.note(now_s - begin_s, now_s, self)

    def close(self) -> None:
        self._coro.close()

    def __await__(self) -> Any:
        return self._coro.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coro, name)

    def __str__(self) -> str:
        return getattr(self._coro, "__qualname__", None) or repr(self._coro)
