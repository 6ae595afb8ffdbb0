"""Threads for what observers may take their time for: one for each work, and one that hangs is left behind. Shell."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_LEFT_BEHIND_MAX = 16
T = TypeVar("T")


class LeftBehindError(Exception):
    """What was done in a thread has not come to an end in time."""


class ObserverThreads:
    """Owns nothing but their number. They are daemons: one that hangs does not keep the process from ending.

    `left_behind` are those that have not come to an end in time, and still have not.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.left_behind = 0

    def check(self) -> None:
        """Raises LeftBehindError when so many hang that no more should be begun."""
        if self.left_behind >= _LEFT_BEHIND_MAX:
            raise LeftBehindError(f"{self.left_behind} threads of observers hang; restart the broker")

    async def run(
        self, work: Callable[[], T], name: str, timeout_s: float, too_late: Callable[[T], None] | None = None
    ) -> T:
        """What `work` returns or raises; LeftBehindError when its time is over.

        What it returns after that is given to `too_late`, on the event loop.
        """
        done: asyncio.Future[Any] = self._loop.create_future()

        def deliver(result: Any, error: BaseException | None) -> None:
            if done.done():
                self.left_behind -= 1
                if error is None and too_late is not None:
                    too_late(result)
            elif error is not None:
                done.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))
            else:
                done.set_result(result)

        def run() -> None:
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:  # noqa: BLE001 - it is delivered
                error = raised
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(deliver, result, error)

        threading.Thread(target=run, name=f"observer-{name}", daemon=True).start()
        try:
            async with asyncio.timeout(timeout_s):
                found: T = await done
        except TimeoutError:
            if not done.cancelled():
                raise
            raise LeftBehindError(f"it is not done within {timeout_s:g} s") from None
        finally:
            self.left_behind += done.cancelled()
        return found
