"""Run a node's reactions to changed metadata: each step is isolated, and retried later if it fails.

A step uses the metadata as of when it runs. So repeating it, or running it once for several changes, is correct. A step
that concerns many partitions runs in pieces over several iterations of the event loop, so that clients are served
meanwhile.

Iterations alternate between the oldest and the newest step. So a small change is in force soon, however much work an
earlier step has left, and that step still gets at least half of the iterations.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from broker_runtime.clock import Timer
from broker_runtime.coordination.backoff import Backoff
from broker_runtime.slicing.slice_lengths import SliceLengths
from broker_runtime.storage.disk.disk import Pause

log = logging.getLogger(__name__)

_RETRY_MAX_S = 30.0
SLICE_S = 0.002
"""Length of a time slice, in seconds. A time slice ends with the piece that is running after this time."""

Pieces = Callable[[], Iterator[Pause | None]]
"""A step of work, in pieces that each end at a `yield`. A step that yields a `Pause` continues at the pause's end."""


class Scheduler(Protocol):
    """The part of the event loop that Reactions needs: calls soon, and calls later."""

    def call_soon(self, callback: Callable[[], None]) -> object: ...

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer: ...


class Reactions:
    """Runs the steps that apply metadata, and retries failed ones.

    `now` returns seconds. Steps are identified by their names, so there are at most twice as many of them as things
    that metadata can change. Nothing is durable: a start applies all of the metadata.
    """

    def __init__(self, loop: Scheduler, now: Callable[[], float]) -> None:
        self._loop = loop
        self._now = now
        self._steps: OrderedDict[int, _Step] = OrderedDict()
        """Steps by number, in the order in which they were added."""
        self._next_number = 0
        self._unfinished: dict[int, int] = {}
        """Number of unfinished steps by their `part_of`, lowest first."""
        self._current: _Step | None = None
        """The step of which a piece is running now."""
        self._waiting: dict[str, _Step] = {}
        self._under_way: dict[str, _Step] = {}
        self._when_done: deque[tuple[int, str, Callable[[], None]]] = deque()
        """Callbacks that wait until no step with a lower `part_of` is left."""
        self._newest_is_next = False
        self._scheduled = False
        self._failed: dict[str, tuple[Backoff, Timer]] = {}
        self.lengths = SliceLengths("metadata")

    def run(self, name: str, step: Callable[[], None]) -> None:
        """Run `step` now. If the step raises an error, log it, and retry the step with growing delays."""
        backoff = self._taken_back(name)
        try:
            step()
        except Exception as error:
            if backoff.is_news(repr(error)):
                log.exception("%s failed; retrying", name)
            self._again_later(name, backoff, lambda: self.run(name, step))
        else:
            _log_recovery(name, backoff)

    def run_over_slices(self, name: str, step: Pieces) -> None:
        """Run `step` soon, in time slices. The step replaces a waiting step of this name, in its place in the queue.

        A running step runs to its end and then again, so that a step for frequent changes completes, too. A step that
        another step adds is a part of that one: `when_done` waits for both.
        """
        waiting = self._waiting.get(name)
        if waiting is None:
            waiting = self._waiting[name] = self._steps[self._next_number] = _Step(self._next_number, name, step)
            self._next_number += 1
            self._count(waiting.part_of, 1)
            self._schedule()
        waiting.step = step
        if self._current is not None and self._current.part_of < waiting.part_of:
            self._count(waiting.part_of, -1)
            waiting.part_of = self._current.part_of
            self._count(waiting.part_of, 1)

    def _count(self, part_of: int, change: int) -> None:
        self._unfinished[part_of] = left = self._unfinished.get(part_of, 0) + change
        if not left:
            del self._unfinished[part_of]

    def when_done(self, name: str, callback: Callable[[], None]) -> None:
        """Call `callback` once each currently waiting step has succeeded or failed.

        Callbacks run in the order of the calls. If no step waits, `callback` runs at once.
        """
        self._when_done.append((self._next_number, name, callback))
        self._call_back()

    async def finish(self, timeout_s: float) -> None:
        """Give the waiting steps up to `timeout_s` to complete."""
        done = asyncio.Event()
        self.when_done("stopping", done.set)
        try:
            async with asyncio.timeout(timeout_s):
                await done.wait()
        except TimeoutError:
            log.warning(
                "metadata is not completely applied: the next start applies the remaining %d steps", len(self._steps)
            )

    @property
    def failing(self) -> list[str]:
        return sorted(self._failed)

    def close(self) -> None:
        for _, timer in self._failed.values():
            timer.cancel()
        for known in (
            self._failed,
            self._steps,
            self._unfinished,
            self._waiting,
            self._under_way,
            self._when_done,
        ):
            known.clear()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._slice)

    def _slice(self) -> None:
        self._scheduled = False
        begin_s = now_s = self._now()
        name = None
        while (step := self._next()) is not None:
            name = step.name
            self._run_piece(step)
            now_s = self._now()
            if now_s >= begin_s + SLICE_S:
                break
        self._newest_is_next = not self._newest_is_next
        self.lengths.note(now_s - begin_s, now_s, name)
        if self._next() is not None:
            self._schedule()

    def _next(self) -> "_Step | None":
        """Return the next step to run, if any. A step waits for a running one of its name, and while it pauses."""
        among = reversed(self._steps.values()) if self._newest_is_next else iter(self._steps.values())
        can_go_on = (step for step in among if not step.pauses and self._under_way.get(step.name, step) is step)
        return next(can_go_on, None)

    def _pause(self, step: "_Step", pause: Pause) -> None:
        step.pauses = True
        pause(partial(self._resume, step))

    def _resume(self, step: "_Step") -> None:
        step.pauses = False
        if self._steps:
            self._schedule()

    def _run_piece(self, step: "_Step") -> None:
        """Run one piece of the step."""
        self._current = step
        try:
            if step.pieces is None:
                del self._waiting[step.name]
                self._under_way[step.name] = step
                step.backoff = self._taken_back(step.name)
                step.pieces = step.step()
            pause = next(step.pieces)
            if pause is not None:
                self._pause(step, pause)
        except StopIteration:
            _log_recovery(step.name, step.backoff)
            self._ended(step)
        except Exception as error:
            if step.backoff.is_news(repr(error)):
                log.exception("%s failed; retrying", step.name)
            self._again_later(step.name, step.backoff, partial(self._wait_again, step.name, step.step))
            self._ended(step)
        finally:
            self._current = None

    def _ended(self, step: "_Step") -> None:
        self._current = None
        if self._steps.pop(step.number, None) is not None:
            self._count(step.part_of, -1)
        self._under_way.pop(step.name, None)
        self._call_back()

    def _call_back(self) -> None:
        while self._when_done and self._when_done[0][0] <= next(iter(self._unfinished), self._next_number):
            _, name, callback = self._when_done.popleft()
            self.run(name, callback)

    def _wait_again(self, name: str, step: Pieces) -> None:
        if name not in self._waiting:
            self.run_over_slices(name, step)

    def _taken_back(self, name: str) -> Backoff:
        """Cancel the scheduled retry of a step, and return its back-off."""
        if name not in self._failed:
            return Backoff(_RETRY_MAX_S)
        backoff, timer = self._failed.pop(name)
        timer.cancel()
        return backoff

    def _again_later(self, name: str, backoff: Backoff, again: Callable[[], None]) -> None:
        self._failed[name] = backoff, self._loop.call_later(backoff.failed(), again)


class _Step:
    """A step; it waits until `pieces` is set."""

    __slots__ = ("backoff", "name", "number", "part_of", "pauses", "pieces", "step")

    def __init__(self, number: int, name: str, step: Pieces) -> None:
        self.number, self.name, self.step = number, name, step
        self.part_of = number
        """Number of the step that this one is a part of: its own, or that of the step that added it."""
        self.backoff = Backoff(_RETRY_MAX_S)
        self.pieces: Iterator[Pause | None] | None = None
        self.pauses = False


def _log_recovery(name: str, backoff: Backoff) -> None:
    if backoff.succeeded():
        log.info("%s has succeeded", name)
