"""Divide the time of the event loop among long work: one slice at a time, round robin. Shell.

A request may name ten thousand partitions. Its handler is then `Steps`, and this queue runs them: one slice in each
iteration of the event loop, round robin over all current work. So a client with a short request waits for at most one
slice, however many clients have long ones. Each connection has one such request at a time, so that connections share
the slices equally.

Coroutines can take part: `next_slice` waits in the same queue. Work that takes memory waits until there
is room for it.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from broker_runtime.errors import KafkaError, ProtocolError, detached
from broker_runtime.slicing.letting_go import freed, held_by, held_by_failed
from broker_runtime.slicing.slice_lengths import SliceLengths
from broker_runtime.slicing.steps import Steps

T = TypeVar("T")


class Pausing(Protocol):
    """Decides when work has to pause, between two of its steps."""

    def is_due(self) -> bool:
        """Whether the work has to pause now."""
        ...

    def begin(self, resume: Callable[[], None]) -> None:
        """Note that the work pauses. `resume` has to be called once, even if the work is cancelled meanwhile."""
        ...


SLICE_S = 0.0015
"""The default length of a time slice in seconds: that of sluicegate.network.turn.max.us."""
ROOM_BYTES = 4 * 1024 * 1024
"""The default room in bytes: that of sluicegate.requests.long.max.bytes."""
_FIRST_S = 0.0003
"""Work that takes less time runs at once, without a slice."""
_STEPS_MAX = 500
"""A slice also ends after this many steps, because the clock of a test or simulation does not advance meanwhile."""


@dataclass(slots=True, eq=False)
class _Work:
    """Queued work. `steps` None is a coroutine that waits for a slice; `size` is the memory that it takes, in bytes."""

    steps: Steps[Any] | None
    result: "asyncio.Future[Any]"
    size: int = 0
    spent: Callable[[float], None] | None = None
    """Gets the time of each slice, in seconds."""
    pausing: Pausing | None = None


_SIZES = (4_096, 16_384, 65_536)
"""The largest sizes of the classes of work, in bytes; a last class has all that is larger."""


class _Room:
    """Room for the work of one class, so that smaller work never waits for larger work. First come, first served."""

    __slots__ = ("_all", "left", "waiting")

    def __init__(self, size: int) -> None:
        self._all = self.left = size
        self.waiting: dict[_Work, None] = {}
        """Waiting work, in the order of its arrival."""

    def taken(self) -> _Work | None:
        """Return the next work for which there is room. Work larger than all room gets it when no other has any."""
        work = next(iter(self.waiting), None)
        if work is None or (work.size > self.left and self.left != self._all):
            return None
        del self.waiting[work]
        self.left -= work.size
        return work


def _nothing() -> None:
    """Ignore the failure."""


class Slices:
    """The queue of long work on one event loop. `now` returns seconds, and `slice_s` is the length of a time slice.

    `room` is the maximum of bytes of requests of one class of sizes that run at the same time. `work` is the name in
    metrics.
    """

    __slots__ = ("_granted", "_queue", "_rooms", "_scheduled", "_slice_s", "lengths", "now")

    def __init__(
        self,
        now: Callable[[], float],
        slice_s: float = SLICE_S,
        room: int = ROOM_BYTES,
        work: str = "long requests",
    ) -> None:
        self.now = now
        self._slice_s = slice_s
        self._rooms = tuple(_Room(room) for _ in range(len(_SIZES) + 1))
        self._queue: deque[_Work] = deque()
        self._scheduled = False
        self._granted = False
        """Whether a coroutine has the slice of this iteration of the loop."""
        self.lengths = SliceLengths(work)

    def __len__(self) -> int:
        return len(self._queue) + sum(len(room.waiting) for room in self._rooms)

    def begin(self, steps: Steps[T], pausing: Pausing | None = None) -> tuple[bool, T | None]:
        """Run the first steps of a piece of work now.

        Return (True, the result) if these were all, and (False, None) if `add` has to run the rest.
        """
        try:
            self._run_for(steps, _FIRST_S, pausing)
        except StopIteration as ended:
            return True, ended.value
        return False, None

    def add(
        self,
        steps: Steps[T],
        size: int = 0,
        spent: Callable[[float], None] | None = None,
        pausing: Pausing | None = None,
    ) -> "asyncio.Future[T]":
        """Return a future of the result, or the error, of `steps`.

        Cancelling it ends the work before its next step. Work of a `size` in bytes waits until there is room. `spent`
        gets the time of each slice in seconds, the last one before the result. The work pauses between two steps when
        `pausing` demands it.
        """
        work = _Work(steps, asyncio.get_running_loop().create_future(), size, spent, pausing)
        if size:
            self._wait_for_room(work)
        else:
            self._queue.append(work)
            self._schedule()
        return work.result

    @asynccontextmanager
    async def room(self, size: int) -> AsyncIterator[None]:
        """Wait for room for work of `size` bytes, and occupy the room while the context manager is active."""
        if not size:
            yield
            return
        work = _Work(None, asyncio.get_running_loop().create_future(), size)
        self._wait_for_room(work)
        try:
            await work.result
            yield
        finally:
            if not work.result.cancelled():
                self._give_back(size)

    def _room_of(self, size: int) -> _Room:
        return self._rooms[bisect_left(_SIZES, size)]

    def _wait_for_room(self, work: _Work) -> None:
        room = self._room_of(work.size)
        room.waiting[work] = None
        self._let_in(room)
        if work in room.waiting:
            work.result.add_done_callback(lambda _: self._give_up_waiting(work))

    def _give_up_waiting(self, work: _Work) -> None:
        """End cancelled work that waits for room. It has the request of a disconnected client, and needs no room."""
        room = self._room_of(work.size)
        if work in room.waiting:
            del room.waiting[work]
            if work.steps is not None:
                self._queue.append(_Work(work.steps, work.result))
            self._let_in(room)

    def _give_back(self, size: int) -> None:
        room = self._room_of(size)
        room.left += size
        self._let_in(room)

    def do(self, steps: Steps[T], on_failure: Callable[[], None] = _nothing) -> "asyncio.Future[T] | None":
        """Run steps whose result is not awaited: at once if they are few. Raises the errors of the first steps.

        Returns a future whose cancellation ends the steps before the next one; None if all of them have run.
        `on_failure` runs when a later step raises, and the event loop's exception handler gets the exception.
        """
        done, _ = self.begin(steps)
        if done:
            return None
        result = self.add(steps)
        result.add_done_callback(partial(_call_on_failure, on_failure))
        return result

    async def finish(self, steps: Steps[T], pausing: Pausing | None = None) -> T:
        """Return the result of the steps: at once if `begin` has it, otherwise after some slices."""
        done, result = self.begin(steps, pausing)
        return await self.add(steps, pausing=pausing) if not done else result  # type: ignore[return-value]

    async def next_slice(self) -> float:
        """Wait until this coroutine gets a time slice.

        Return its end in seconds of the clock; the caller then waits for the next slice.
        """
        work = _Work(None, asyncio.get_running_loop().create_future())
        self._queue.append(work)
        self._schedule()
        await work.result
        return self.now() + self._slice_s

    def first_ends_s(self) -> float:
        """Return the time at which a coroutine that begins now needs a time slice to go on, in seconds of the clock."""
        return self.now() + _FIRST_S

    def _let_in(self, room: _Room) -> None:
        """Let waiting work begin while there is room."""
        while (work := room.taken()) is not None:
            if work.steps is not None:
                self._queue.append(work)
            elif work.result.done():
                # The work was cancelled a moment ago.
                room.left += work.size
            else:
                work.result.set_result(None)
        self._schedule()

    def _pauses(self, work: _Work) -> bool:
        """Let the work pause if it has to. Cancelled work does not pause: its steps have to be closed."""
        pausing = work.pausing
        if pausing is None or work.result.done() or not pausing.is_due():
            return False
        pausing.begin(partial(self._resume, work))
        return True

    def _resume(self, work: _Work) -> None:
        self._queue.append(work)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and self._queue:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        if self._granted:
            # This iteration's slice belongs to the coroutine that was called just before.
            self._granted = False
            self._schedule()
            return
        begin_s = self.now()
        left_s = self._slice_s
        while self._queue and left_s > 0:
            work = self._queue.popleft()
            if work.steps is not None:
                if self._pauses(work):
                    continue
                if work.spent is None:
                    has_ended = self._ends(work, work.steps, left_s)
                else:
                    slice_begin_s = self.now()
                    has_ended = self._ends(work, work.steps, left_s)
                    work.spent(self.now() - slice_begin_s)
                if not has_ended:
                    self._queue.append(work)
                    break
                left_s = self._slice_s - (self.now() - begin_s)
            elif not work.result.done():
                work.result.set_result(None)
                self._granted = True
                break
        now_s = self.now()
        self.lengths.note(now_s - begin_s, now_s)
        if self._granted and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run)
        self._schedule()

    def _ends(self, work: _Work, steps: Steps[Any], time_s: float) -> bool:
        """Run steps for `time_s` seconds. Returns whether the work has ended."""
        result = work.result
        held: list[Any] = []
        try:
            if not result.done():
                self._run_for(steps, time_s, work.pausing)
                return False
            held = held_by(steps)
            steps.close()
        except StopIteration as ended:
            if not result.done():
                result.set_result(ended.value)
        except Exception as error:  # noqa: BLE001 - raised where the result is awaited
            held = held_by_failed(error)
            if not result.done():
                result.set_exception(_for_caller(error))
        if held:
            # Neither the frames nor the error refer to these any more.
            self.do(freed(held))
        if work.size:
            self._give_back(work.size)
        return True

    def _run_for(self, steps: Steps[Any], time_s: float, pausing: Pausing | None) -> None:
        """Run steps for `time_s` seconds, or until they have to pause.

        Raises StopIteration at the end of the work, and what a step raises.
        """
        now = self.now
        stop_s = now() + time_s
        for _ in range(_STEPS_MAX):
            next(steps)
            if now() >= stop_s or (pausing is not None and pausing.is_due()):
                return


async def over_slices(steps: Steps[T]) -> T:
    """Return the result of steps that belong to no request: a slice runs in each iteration of the event loop."""
    return await Slices(asyncio.get_running_loop().time).finish(steps)


def _for_caller(error: Exception) -> Exception:
    """Return the error for the caller that awaits the result. Internal errors keep their traceback, which is logged."""
    return detached(error) if isinstance(error, KafkaError | ProtocolError) else error


def _call_on_failure(on_failure: Callable[[], None], work: "asyncio.Future[Any]") -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        on_failure()
        context = {"message": "background work in slices failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
