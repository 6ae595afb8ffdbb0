"""Timers on the event loop that brokers run on."""

import asyncio

import uvloop

from broker_runtime.coordination.timer_service import TimerService


async def _due_in_order() -> list[str]:
    timers: TimerService[str] = TimerService()
    rung: list[str] = []
    done = asyncio.Event()

    def on_due(_key: object, action: str) -> None:
        rung.append(action)
        if action == "last":
            done.set()

    timers.on_due = on_due
    timers.schedule("late", 0.01, "last")
    timers.schedule("overdue", -1.0, "first")
    timers.schedule("now", 0.0, "second")
    async with asyncio.timeout(10):
        await done.wait()
    return rung


def test_a_timer_due_at_once_may_be_followed_by_others() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(_due_in_order()) == ["first", "second", "last"]


async def _due_by_iterations() -> list[int]:
    """Number of timers that fell due in each iteration of the loop."""
    timers: TimerService[str] = TimerService()
    rung, came = 0, list[int]()

    def on_due(_key: object, _action: str) -> None:
        nonlocal rung
        rung += 1

    timers.on_due = on_due
    for number in range(2_000):
        timers.schedule(number, 0.0, "")
        timers.schedule(-1 - number, 0.0, "")
        timers.schedule(-1 - number, 3_600.0, "is put off")
    async with asyncio.timeout(10):
        while sum(came) < 2_000:
            await asyncio.sleep(0)
            came.append(rung - sum(came))
    assert rung == 2_000
    timers.clear()
    return came


def test_very_many_that_are_due_come_over_several_iterations() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert max(runner.run(_due_by_iterations())) <= 500
