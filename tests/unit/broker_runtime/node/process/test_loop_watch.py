"""Steps of tasks are measured by their owner, and tasks are unchanged without a watch."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator

import pytest

from broker_runtime.node.process.loop_watch import LoopWatch
from tests.support.fakes.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def watch(clock: ManualClock) -> AsyncIterator[LoopWatch]:
    watch = LoopWatch(asyncio.get_running_loop(), clock.monotonic)
    watch.start()
    yield watch
    watch.stop()


async def test_each_step_of_a_task_is_a_time_slice_of_its_own(watch: LoopWatch, clock: ManualClock) -> None:
    async def work() -> str:
        clock.advance(0.25)
        await asyncio.sleep(0)
        clock.advance(0.5)
        return "done"

    assert await asyncio.create_task(work()) == "done"
    assert watch.tasks.total_s == 0.75
    assert watch.tasks.longest_s(clock.monotonic()) == 0.5


async def test_the_task_that_held_the_loop_is_named(
    watch: LoopWatch, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def dawdle() -> None:
        clock.advance(0.25)

    with caplog.at_level(logging.WARNING):
        await asyncio.create_task(dawdle())
    assert "blocked for 250 ms by tasks, at the end by" in caplog.text
    assert "dawdle" in caplog.text


async def test_cancellation_failure_and_names_are_as_without_a_watch(watch: LoopWatch) -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    async def fail() -> None:
        raise ValueError("a mistake")

    waiting = asyncio.create_task(forever(), name="waiting")
    await asyncio.sleep(0)
    assert waiting.get_name() == "waiting"
    assert "forever" in repr(waiting)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(ValueError, match="a mistake"):
        await asyncio.create_task(fail())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await asyncio.create_task(forever())


async def test_a_stopped_watch_measures_no_new_tasks(watch: LoopWatch, clock: ManualClock) -> None:
    async def work() -> None:
        clock.advance(1)

    watch.stop()
    await asyncio.create_task(work())
    assert watch.tasks.total_s == 0


async def test_the_garbage_collector_is_watched(watch: LoopWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = iter(range(100))
    monkeypatch.setattr(watch.garbage, "_now", lambda: float(next(now_s)))
    gc.collect()
    assert watch.garbage.lengths.total_s >= 1
