"""Coordinators of a process share the time slices of its event loop."""

import asyncio
import time

import pytest

from broker_runtime.coordination.deciding_slices import DecidingSlices

TOGETHER, SLICE_S = 20, 0.002


async def test_coordinators_that_decide_at_once_do_not_hold_the_loop_one_after_the_other() -> None:
    slices, lengths, begun = DecidingSlices(), list[float](), list[int]()

    async def decide(number: int) -> None:
        stop_s = await slices.begin()
        begun.append(number)
        while asyncio.get_running_loop().time() < stop_s:
            pass
        slices.end()

    deciding = [asyncio.ensure_future(decide(number)) for number in range(TOGETHER)]
    while not all(each.done() for each in deciding):
        began_s = time.thread_time()
        await asyncio.sleep(0)
        lengths.append(time.thread_time() - began_s)
    assert begun == list(range(TOGETHER))
    assert max(lengths) < 3 * SLICE_S


async def test_those_with_little_to_decide_do_so_in_the_same_time_slice() -> None:
    slices, begun = DecidingSlices(), list[int]()

    async def decide(number: int) -> None:
        await slices.begin()
        begun.append(number)
        slices.end()

    deciding = [asyncio.ensure_future(decide(number)) for number in range(3)]
    await asyncio.sleep(0)
    assert begun == [0, 1, 2]
    await asyncio.gather(*deciding)


async def test_a_cancelled_waiter_or_decider_does_not_block_others() -> None:
    slices = DecidingSlices()

    async def decide() -> None:
        stop_s = await slices.begin()
        while asyncio.get_running_loop().time() < stop_s:
            pass
        await asyncio.Event().wait()

    deciding = [asyncio.ensure_future(decide()) for _ in range(3)]
    await asyncio.sleep(0)
    for each in deciding:
        each.cancel()
    async with asyncio.timeout(5):
        await slices.begin()


async def test_a_coordinator_whose_time_slice_begins_late_gets_the_full_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """If sockets take longer in each iteration of the event loop than coordinators have, all would wait for ever."""
    slices, loop, now_s, begun = DecidingSlices(), asyncio.get_running_loop(), 0.0, list[int]()
    monkeypatch.setattr(loop, "time", lambda: now_s)

    def sockets() -> None:
        nonlocal now_s
        now_s += 2 * SLICE_S
        if len(begun) < TOGETHER:
            loop.call_soon(sockets)

    async def decide(number: int) -> None:
        nonlocal now_s
        stop_s = await slices.begin()
        assert stop_s - now_s == pytest.approx(SLICE_S)
        begun.append(number)
        now_s = stop_s

    loop.call_soon(sockets)
    deciding = [asyncio.ensure_future(decide(number)) for number in range(TOGETHER)]
    for _ in range(2 * TOGETHER):
        await asyncio.sleep(0)
    monkeypatch.undo()
    assert begun == list(range(TOGETHER))
    async with asyncio.timeout(5):
        await asyncio.gather(*deciding)
        await slices.begin()
