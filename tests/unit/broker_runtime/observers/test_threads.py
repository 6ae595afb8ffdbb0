"""What is done in threads: its end, and what becomes of those that come to none."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from broker_runtime.observers.threads import LeftBehindError, ObserverThreads


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.to_thread(lambda: None)


async def test_what_is_returned_or_raised_comes_back() -> None:
    threads = ObserverThreads(asyncio.get_running_loop())

    def fail(error: BaseException) -> None:
        raise error

    assert await threads.run(lambda: threading.current_thread().name, "orders", 60) == "observer-orders"
    for error in (ValueError("no"), TimeoutError("its own")):
        with pytest.raises(type(error), match=str(error)):
            await threads.run(lambda raised=error: fail(raised), "orders", 60)  # type: ignore[misc]
    with pytest.raises(RuntimeError, match="SystemExit"):
        await threads.run(lambda: fail(SystemExit(3)), "orders", 60)
    assert threads.left_behind == 0


async def test_one_that_hangs_is_counted_until_it_ends_and_what_it_returns_is_not_lost() -> None:
    threads = ObserverThreads(asyncio.get_running_loop())
    go_on = threading.Event()
    late: list[bool] = []
    with pytest.raises(LeftBehindError, match=r"it is not done within 0\.01 s"):
        await threads.run(lambda: go_on.wait(60), "orders", 0.01, late.append)
    assert (threads.left_behind, late) == (1, [])
    go_on.set()
    await until(lambda: late == [True])
    assert threads.left_behind == 0


async def test_one_that_nobody_waits_for_any_more_is_counted_too() -> None:
    threads = ObserverThreads(asyncio.get_running_loop())
    go_on = threading.Event()
    task = asyncio.create_task(threads.run(lambda: go_on.wait(60), "orders", 60))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert threads.left_behind == 1
    go_on.set()
    await until(lambda: threads.left_behind == 0)


async def test_there_is_an_end_to_how_many_may_hang() -> None:
    threads = ObserverThreads(asyncio.get_running_loop())
    threads.left_behind = 15
    threads.check()
    threads.left_behind = 16
    with pytest.raises(LeftBehindError, match="16 threads of observers hang; restart the broker"):
        threads.check()
