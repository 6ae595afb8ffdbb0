"""asyncio in virtual time: sleeps and time-outs take no time, and always come in the same order.

run(main(), clock)     # `clock` is a ManualClock that moves with the loop
pytestmark = pytest.mark.virtual_time     # for every async test of a module

For shells whose only I/O is behind an interface. If nothing is due and nothing can arrive, the run fails and does not
hang.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.support.fakes.manual_clock import ManualClock

T = TypeVar("T")


class _NoWait(selectors.DefaultSelector):
    """A selector that advances the clock to the next timer instead of waiting."""

    clock: ManualClock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found:
            if timeout is None:
                raise RuntimeError("nothing is left to happen, but the test waits")
            self.clock.advance(timeout)
        return found


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is a ManualClock."""

    def __init__(self, clock: ManualClock) -> None:
        selector = _NoWait()
        selector.clock = clock
        super().__init__(selector)
        self._virtual = clock

    def time(self) -> float:
        return self._virtual.monotonic()


def run(main: Coroutine[Any, Any, T], clock: ManualClock) -> T:
    loop = VirtualTimeLoop(clock)
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
