"""What a node does about changed metadata: each step in its own boundary, and again later where it has failed.

A step goes by the metadata as it is when it runs, so that doing it again, or once for several changes, is right. One
that concerns many partitions is done in pieces over turns of the event loop, so that clients are served meanwhile.

Turns go to the oldest step and to the newest one alternately: a small change is in force soon, however much an earlier
one has left to do, and that one goes on with half of the turns at least.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from broker_runtime.clock import Timer
from broker_runtime.coordination.backoff import Backoff
from broker_runtime.storage.disk import Pause
from broker_runtime.turn_lengths import TurnLengths

log = logging.getLogger(__name__)

_RETRY_MAX_S = 30.0
TURN_S = 0.002
"""After which a turn ends with the piece that is under way."""

Pieces = Callable[[], Iterator[Pause | None]]
"""A step; each piece of it ends at a `yield`. One that yields a `Pause` goes on when that is over."""


class Scheduler(Protocol):
    """The part of an event loop that is used."""

    def call_soon(self, callback: Callable[[], None]) -> object: ...

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer: ...


class Reactions:
    """Owns the steps that wait, those that are under way and those that have failed; `now` gives seconds.

    Steps are known by their names, so there are never more than twice as many of them as things that metadata can
    change. Nothing of it is durable: a start takes over all of the metadata.
    """

    def __init__(self, loop: Scheduler, now: Callable[[], float]) -> None:
        self._loop = loop
        self._now = now
        self._steps: OrderedDict[int, _Step] = OrderedDict()
        """By number, which is in the order in which they came."""
        self._next_number = 0
        self._unfinished: dict[int, int] = {}
        """How many steps are not finished, by their `part_of`, the lowest first."""
        self._current: _Step | None = None
        """The step of which a piece runs now."""
        self._waiting: dict[str, _Step] = {}
        self._under_way: dict[str, _Step] = {}
        self._when_done: deque[tuple[int, str, Callable[[], None]]] = deque()
        """The callbacks that wait until no step is left whose `part_of` is lower."""
        self._newest_is_next = False
        self._scheduled = False
        self._failed: dict[str, tuple[Backoff, Timer]] = {}
        self.lengths = TurnLengths("metadata")

    def run(self, name: str, step: Callable[[], None]) -> None:
        """`step` now; when it raises that is logged and it is done again, less and less often, until it succeeds."""
        backoff = self._taken_back(name)
        try:
            step()
        except Exception as error:
            if backoff.is_news(repr(error)):
                log.exception("%s failed, it is tried again", name)
            self._again_later(name, backoff, lambda: self.run(name, step))
        else:
            _say_that_it_succeeded(name, backoff)

    def run_over_turns(self, name: str, step: Pieces) -> None:
        """`step` soon; one that waits under this name is done once, in the place of the first.

        One that is under way is done to its end and then again, so that what changes all the time gets done, too.
        A step that another step adds is a part of that one: `when_done` waits for both.
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
        """`run` it once each step that waits now was done or has failed, in the order of the calls; at once when
        there is none."""
        self._when_done.append((self._next_number, name, callback))
        self._call_back()

    async def finish(self, timeout_s: float) -> None:
        """Give the steps that wait as much time to be done."""
        done = asyncio.Event()
        self.when_done("stopping", done.set)
        try:
            async with asyncio.timeout(timeout_s):
                await done.wait()
        except TimeoutError:
            log.warning("metadata is not applied to the end: %d steps are left to the next start", len(self._steps))

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
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        begin_s = now_s = self._now()
        name = None
        while (step := self._next()) is not None:
            name = step.name
            self._go_on(step)
            now_s = self._now()
            if now_s >= begin_s + TURN_S:
                break
        self._newest_is_next = not self._newest_is_next
        self.lengths.note(now_s - begin_s, now_s, name)
        if self._next() is not None:
            self._schedule()

    def _next(self) -> "_Step | None":
        """A step waits for the one of its name that is under way, and while it pauses."""
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

    def _go_on(self, step: "_Step") -> None:
        """One piece."""
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
            _say_that_it_succeeded(step.name, step.backoff)
            self._ended(step)
        except Exception as error:
            if step.backoff.is_news(repr(error)):
                log.exception("%s failed, it is tried again", step.name)
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
            self.run_over_turns(name, step)

    def _taken_back(self, name: str) -> Backoff:
        """How often it has failed; it is not tried later any more."""
        if name not in self._failed:
            return Backoff(_RETRY_MAX_S)
        backoff, timer = self._failed.pop(name)
        timer.cancel()
        return backoff

    def _again_later(self, name: str, backoff: Backoff, again: Callable[[], None]) -> None:
        self._failed[name] = backoff, self._loop.call_later(backoff.failed(), again)


class _Step:
    """One that waits, until there are `pieces`."""

    __slots__ = ("backoff", "name", "number", "part_of", "pauses", "pieces", "step")

    def __init__(self, number: int, name: str, step: Pieces) -> None:
        self.number, self.name, self.step = number, name, step
        self.part_of = number
        """The number of the step that it is a part of: its own, or that of the step that has added it."""
        self.backoff = Backoff(_RETRY_MAX_S)
        self.pieces: Iterator[Pause | None] | None = None
        self.pauses = False


def _say_that_it_succeeded(name: str, backoff: Backoff) -> None:
    if backoff.succeeded():
        log.info("%s has succeeded now", name)
