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


def test_one_that_is_due_at_once_may_be_followed_by_others() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(_due_in_order()) == ["first", "second", "last"]
