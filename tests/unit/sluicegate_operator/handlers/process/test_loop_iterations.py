"""Iterations of an event loop by a clock that the work itself advances."""

import asyncio

import pytest

from sluicegate_operator.handlers.process.loop_iterations import LONG_S, TimedSelector, loop_on
from tests.support.fakes.manual_clock import ManualClock


def test_the_longest_iteration_is_kept_and_those_that_worked_long_are_counted() -> None:
    clock, processor = ManualClock(), ManualClock()
    iterations = TimedSelector(clock.monotonic, processor.monotonic)

    async def work() -> None:
        for worked_s, waited_s in ((0.5, 0), (2, 0), (1, 4), (1.5, 0), (0.5, 0)):
            processor.advance(LONG_S * worked_s)
            clock.advance(LONG_S * (worked_s + waited_s))
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=loop_on(iterations)) as runner:
        runner.run(work())
    assert iterations.longest_s == pytest.approx(LONG_S * 5)
    assert iterations.most_worked_s == pytest.approx(LONG_S * 2)
    assert iterations.long == 2, "waiting for a processor is no work"


def test_waiting_is_no_iteration() -> None:
    iterations = TimedSelector()

    with asyncio.Runner(loop_factory=loop_on(iterations)) as runner:
        runner.run(asyncio.sleep(4 * LONG_S))
    assert iterations.longest_s < 4 * LONG_S
