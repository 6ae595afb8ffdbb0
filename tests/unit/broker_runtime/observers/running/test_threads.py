"""Calls of observers in threads: what they return or raise, and calls that do not return."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from broker_runtime.observers.running.threads import LEFT_BEHIND_MAX, CallFailedError, LeftBehindError, ObserverThreads
from tests.support.oracles.circles import no_circles

LOAD = "its import or `configure`"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.to_thread(lambda: None)


def fail(error: BaseException) -> None:
    raise error


async def hang(threads: ObserverThreads, name: str, go_on: threading.Event) -> None:
    with pytest.raises(LeftBehindError, match=r"its import or `configure` has not returned within 0\.01 s"):
        await threads.run(lambda: go_on.wait(60), name, LOAD, 0.01)


async def test_run_returns_the_result_or_raises_the_error() -> None:
    threads = ObserverThreads(asyncio.get_running_loop())
    assert await threads.run(lambda: threading.current_thread().name, "orders", LOAD, 60) == "observer-orders"
    for error, text in ((ValueError("no\nand more"), "ValueError: no"), (SystemExit(3), "SystemExit: 3")):
        with pytest.raises(CallFailedError, match=f"^{text}$"):
            await threads.run(lambda raised=error: fail(raised), "orders", LOAD, 60)  # type: ignore[misc]
    assert threads.left_behind == 0


async def test_a_time_out_of_an_observer_is_its_own() -> None:
    threads = ObserverThreads(asyncio.get_running_loop())
    with pytest.raises(CallFailedError, match=r"^TimeoutError: its own$"):
        await threads.run(lambda: fail(TimeoutError("its own")), "orders", LOAD, 60)


async def raise_in_a_thread() -> None:
    threads = ObserverThreads(asyncio.get_running_loop())

    def configure() -> None:
        raise ValueError("no")

    with pytest.raises(CallFailedError):
        await threads.run(configure, "orders", LOAD, 60)


async def test_a_call_that_raised_keeps_nothing() -> None:
    await raise_in_a_thread()
    with no_circles():
        await raise_in_a_thread()


async def test_a_hanging_call_is_counted_until_it_ends_and_its_late_result_is_delivered() -> None:
    threads = ObserverThreads(asyncio.get_running_loop())
    go_on = threading.Event()
    late: list[bool] = []
    with pytest.raises(LeftBehindError, match=r"its import or `configure` has not returned within 0\.01 s"):
        await threads.run(lambda: go_on.wait(60), "orders", LOAD, 0.01, late.append)
    assert (threads.left_behind, late) == (1, [])
    go_on.set()
    await until(lambda: late == [True])
    assert threads.left_behind == 0


async def test_a_cancelled_call_is_counted_until_it_ends() -> None:
    threads = ObserverThreads(asyncio.get_running_loop())
    go_on = threading.Event()
    task = asyncio.create_task(threads.run(lambda: go_on.wait(60), "orders", LOAD, 60))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert threads.left_behind == 1
    go_on.set()
    await until(lambda: threads.left_behind == 0)


async def test_a_hanging_call_blocks_further_calls_of_its_observer_only() -> None:
    threads = ObserverThreads(asyncio.get_running_loop())
    go_on = threading.Event()
    await hang(threads, "stuck", go_on)
    with pytest.raises(LeftBehindError, match=r"its import or `configure` has not returned for 0 s.*another name"):
        threads.check("stuck", is_built_in=True)
    threads.check("orders", is_built_in=False)
    go_on.set()
    await until(lambda: threads.left_behind == 0)
    threads.check("stuck", is_built_in=False)


async def test_there_is_an_end_to_how_many_may_hang_but_for_those_that_are_built_in() -> None:
    threads = ObserverThreads(asyncio.get_running_loop())
    go_on = threading.Event()
    for number in range(LEFT_BEHIND_MAX):
        threads.check(f"n{number}", is_built_in=False)
        await hang(threads, f"n{number}", go_on)
    with pytest.raises(LeftBehindError, match=r"64 calls of observers hang \(n0, n1, .*\); restart the broker"):
        threads.check("orders", is_built_in=False)
    threads.check("audit-log", is_built_in=True)
    go_on.set()
    await until(lambda: threads.left_behind == 0)
    threads.check("orders", is_built_in=False)


async def test_a_call_that_returns_just_when_the_time_is_up_is_not_left_behind() -> None:
    """Previously the observer could not be loaded again until a restart, and what it had made was never closed."""
    loop, made, late = asyncio.get_running_loop(), threading.Event(), list[str]()
    threads = ObserverThreads(loop)

    def configure() -> str:
        made.set()
        return "an observer"

    task = asyncio.create_task(threads.run(configure, "orders", LOAD, 60, late.append))
    # The thread has returned while the loop was busy; the task is cancelled before the loop notices that.
    await asyncio.sleep(0)
    assert made.wait(60)
    for thread in threading.enumerate():
        if thread.name == "observer-orders":
            thread.join(60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: bool(late))
    assert late == ["an observer"]
    threads.check("orders", is_built_in=False)
    assert threads.left_behind == 0
