"""Threads in which observers are loaded, configured and closed: one for each call. Shell."""

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from broker_runtime.config.keys.observers import OBSERVERS_MAX
from broker_runtime.observers.running.in_service import first_line

LEFT_BEHIND_MAX = 4 * OBSERVERS_MAX
"""Maximum number of hanging calls of all observers.

One observer has at most two: more come from ever new names.
"""
T = TypeVar("T")


class LeftBehindError(Exception):
    """Error of an observer's call in a thread that has not returned in time, or must wait for such an earlier call."""


class CallFailedError(Exception):
    """Error of an observer's call in a thread that has raised an error.

    The text is the class of the raised error and its first line.
    """


class _Outcome(NamedTuple, Generic[T]):
    """The value that a call returned, or the text of the error that it raised."""

    returned: T | None = None
    raised: str | None = None


class _Call(NamedTuple):
    """A call in progress: its name as the subject of a sentence, and its start in seconds of the loop's clock."""

    what: str
    began_s: float


class ObserverThreads:
    """The calls of observers in threads, and the record of calls that have not returned in time.

    Their threads are daemons: the process ends without waiting for them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left_behind: dict[str, list[_Call]] = {}

    @property
    def left_behind(self) -> int:
        """Return the number of calls that have not returned in time, and still have not."""
        return sum(map(len, self._left_behind.values()))

    def check(self, name: str, *, is_built_in: bool) -> None:
        """Raise LeftBehindError if no call of this observer should begin.

        No call should begin if an earlier call of this observer hangs, or `LEFT_BEHIND_MAX` calls of all observers
        hang. The latter does not affect a built-in observer.
        """
        for what, began_s in self._left_behind.get(name, ()):
            raise LeftBehindError(
                f"{what} has not returned for {self._loop.time() - began_s:.0f} s, and the observer is not called "
                "again until it does; list the observer under another name in observer.class.names to load it "
                "now, or restart the broker"
            )
        if self.left_behind >= LEFT_BEHIND_MAX and not is_built_in:
            hanging = ", ".join(sorted(self._left_behind))
            raise LeftBehindError(f"{self.left_behind} calls of observers hang ({hanging:.200}); restart the broker")

    async def run(
        self, work: Callable[[], T], name: str, what: str, timeout_s: float, too_late: Callable[[T], None] | None = None
    ) -> T:
        """Run `work` in a thread and return its value.

        Raises CallFailedError if `work` raises, LeftBehindError if it takes too long. A value that is returned later is
        given to `too_late`, on the event loop.
        """
        call = _Call(what, self._loop.time())
        done: asyncio.Future[_Outcome[T]] = self._loop.create_future()
        has_returned = False

        def deliver(outcome: _Outcome[T]) -> None:
            nonlocal has_returned
            has_returned = True
            if not done.done():
                done.set_result(outcome)
                return
            self._forget(name, call)
            if outcome.raised is None and too_late is not None:
                too_late(outcome.returned)  # type: ignore[arg-type]

        def run() -> None:
            outcome: _Outcome[T]
            try:
                outcome = _Outcome(work())
            except BaseException as error:  # noqa: BLE001 - it is delivered
                outcome = _Outcome(raised=first_line(error))
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(deliver, outcome)

        threading.Thread(target=run, name=f"observer-{name}", daemon=True).start()
        try:
            async with asyncio.timeout(timeout_s):
                outcome = await done
        except TimeoutError:
            raise LeftBehindError(f"{what} has not returned within {timeout_s:g} s") from None
        finally:
            # In the iteration in which the time was up, the call may still have returned.
            if done.cancelled() and not has_returned:
                self._left_behind.setdefault(name, []).append(call)
        if outcome.raised is not None:
            raise CallFailedError(outcome.raised)
        return outcome.returned  # type: ignore[return-value]

    def _forget(self, name: str, call: _Call) -> None:
        left = self._left_behind.get(name, [])
        if call in left:
            left.remove(call)
            if not left:
                del self._left_behind[name]
