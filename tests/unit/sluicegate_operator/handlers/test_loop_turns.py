"""Turns of an event loop by a clock that the work itself moves on."""

import asyncio

import pytest

from sluicegate_operator.handlers.loop_turns import LONG_S, TimedSelector, loop_on
from tests.support.manual_clock import ManualClock


def test_the_longest_turn_is_kept_and_long_ones_are_counted() -> None:
    clock = ManualClock()
    turns = TimedSelector(clock.monotonic)

    async def work() -> None:
        for took_s in (LONG_S / 2, LONG_S * 2, LONG_S * 3, LONG_S / 2):
            clock.advance(took_s)
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=loop_on(turns)) as runner:
        runner.run(work())
    assert turns.longest_s == pytest.approx(LONG_S * 3)
    assert turns.long == 2


def test_waiting_is_no_turn() -> None:
    turns = TimedSelector()

    with asyncio.Runner(loop_factory=loop_on(turns)) as runner:
        runner.run(asyncio.sleep(4 * LONG_S))
    assert turns.longest_s < 4 * LONG_S
