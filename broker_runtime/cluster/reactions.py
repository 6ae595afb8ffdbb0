"""What a node does about changed metadata: each step in its own boundary, and again later where it has failed.

A step goes by the metadata as it is when it runs, so that doing it again, or once for several changes, is right. One
that concerns many partitions is done in pieces over turns of the event loop, so that clients are served meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from broker_runtime.clock import Timer
from broker_runtime.replication.backoff import Backoff
from broker_runtime.turn_lengths import TurnLengths

log = logging.getLogger(__name__)

_RETRY_MAX_S = 30.0
TURN_S = 0.002
"""After which a turn ends with the piece that is under way."""

Pieces = Callable[[], Iterator[None]]
"""A step; each piece of it ends at a `yield`."""


class Scheduler(Protocol):
    """The part of an event loop that is used."""

    def call_soon(self, callback: Callable[[], None]) -> object: ...

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer: ...


class Reactions:
    """Owns the steps that wait, the one that is under way and those that have failed; `now` gives seconds.

    Steps are known by their names, so there are never more of them than things that metadata can change. Nothing of it
    is durable: a start takes over all of the metadata.
    """

    def __init__(self, loop: Scheduler, now: Callable[[], float]) -> None:
        self._loop = loop
        self._now = now
        self._waiting: dict[object, Pieces] = {}
        self._current: _UnderWay | None = None
        self._scheduled = False
        self._failed: dict[object, tuple[Backoff, Timer]] = {}
        self.lengths = TurnLengths("metadata")
        self.after_turn: Callable[[], None] = _nothing
        """Called when what was made in a turn has come to stay."""

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

    def run_over_turns(self, name: object, step: Pieces) -> None:
        """`step` after those that wait already; one that waits under this name is done once, in the place of the first.

        One that is under way is done to its end and then again, so that what changes all the time gets done, too.
        """
        self._waiting[name] = step
        self._schedule()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back once each step that waits now was done or has failed; at once when there is none."""

        def call() -> Iterator[None]:
            callback()
            return iter(())

        if self._current is None and not self._waiting:
            callback()
        else:
            self.run_over_turns(object(), call)

    async def finish(self, timeout_s: float) -> None:
        """Give the steps that wait as much time to be done."""
        done = asyncio.Event()
        self.when_done(done.set)
        try:
            async with asyncio.timeout(timeout_s):
                await done.wait()
        except TimeoutError:
            log.warning("metadata is not applied to the end: %d steps are left to the next start", len(self._waiting))

    @property
    def failing(self) -> list[str]:
        return sorted(map(str, self._failed))

    def close(self) -> None:
        for _, timer in self._failed.values():
            timer.cancel()
        self._failed.clear()
        self._waiting.clear()
        self._current = None

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        begin_s = now_s = self._now()
        name: object = None
        while self._current is not None or self._waiting:
            name = self._go_on()
            now_s = self._now()
            if now_s >= begin_s + TURN_S:
                break
        self.after_turn()
        self.lengths.note(now_s - begin_s, now_s, name)
        if self._current is not None or self._waiting:
            self._schedule()

    def _go_on(self) -> object:
        """One piece; of which step."""
        current, self._current = self._current or self._begun(), None
        try:
            if current.pieces is None:
                current.pieces = current.step()
            next(current.pieces)
        except StopIteration:
            _say_that_it_succeeded(current.name, current.backoff)
        except Exception as error:
            if current.backoff.is_news(repr(error)):
                log.exception("%s failed, it is tried again", current.name)
            self._again_later(current.name, current.backoff, partial(self._wait_again, current.name, current.step))
        else:
            self._current = current
        return current.name

    def _begun(self) -> "_UnderWay":
        name = next(iter(self._waiting))
        return _UnderWay(name, self._waiting.pop(name), self._taken_back(name))

    def _wait_again(self, name: object, step: Pieces) -> None:
        if name not in self._waiting:
            self.run_over_turns(name, step)

    def _taken_back(self, name: object) -> Backoff:
        """How often it has failed; it is not tried later any more."""
        if name not in self._failed:
            return Backoff(_RETRY_MAX_S)
        backoff, timer = self._failed.pop(name)
        timer.cancel()
        return backoff

    def _again_later(self, name: object, backoff: Backoff, again: Callable[[], None]) -> None:
        self._failed[name] = backoff, self._loop.call_later(backoff.failed(), again)


@dataclass(slots=True)
class _UnderWay:
    name: object
    step: Pieces
    backoff: Backoff
    pieces: Iterator[None] | None = None


def _nothing() -> None:
    """For nobody."""


def _say_that_it_succeeded(name: object, backoff: Backoff) -> None:
    if backoff.succeeded():
        log.info("%s has succeeded now", name)
