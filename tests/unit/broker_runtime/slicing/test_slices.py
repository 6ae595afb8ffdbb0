"""Long work shares the event loop: one slice in each iteration, in turn; large work waits until there is space."""

import asyncio
from collections.abc import Callable

import pytest

from broker_runtime.slicing.slices import Slices
from broker_runtime.slicing.steps import Steps
from tests.support.fakes.manual_clock import ManualClock

STEP_S = 0.0005


class Work:
    """Work that notes each of its steps; a step takes half a millisecond."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.slices = Slices(self.clock.monotonic, slice_s=0.001, room=100)
        self.log: list[str] = []

    def steps(self, name: str, count: int, error: Exception | None = None) -> Steps[str]:
        try:
            for _ in range(count):
                self.clock.advance(STEP_S)
                self.log.append(name)
                yield
            if error is not None:
                raise error
            return name
        finally:
            self.log.append(f"{name} ends")


@pytest.fixture
def work() -> Work:
    return Work()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came about")


async def test_short_work_is_done_at_once(work: Work) -> None:
    assert await work.slices.finish(work.steps("a", 0)) == "a"
    assert len(work.slices) == 0


async def test_each_work_has_a_slice_in_its_time_slice(work: Work) -> None:
    a, b = work.slices.add(work.steps("a", 4)), work.slices.add(work.steps("b", 4))
    assert await a == "a"
    assert await b == "b"
    assert work.log == ["a", "a", "b", "b", "a", "a", "b", "b", "a ends", "b ends"]
    assert len(work.slices) == 0


async def test_an_iteration_of_the_event_loop_has_one_slice(work: Work) -> None:
    results = [work.slices.add(work.steps(str(number), 4)) for number in range(10)]
    passed = 0
    while not all(result.done() for result in results):
        before = len(work.log)
        await asyncio.sleep(0)
        passed += 1
        assert sum("ends" not in name for name in work.log[before:]) <= 2
    assert passed >= 20


async def test_coroutines_wait_in_the_same_queue(work: Work) -> None:
    async def three_slices(name: str) -> None:
        for _ in range(3):
            await work.slices.next_slice()
            work.log.append(name)

    task = asyncio.ensure_future(three_slices("coroutine"))
    await asyncio.sleep(0)
    await work.slices.add(work.steps("a", 6))
    await task
    slices = [name for name in work.log if name == "coroutine"]
    assert len(slices) == 3
    assert work.log.index("coroutine") < 2
    assert work.log[-1] != "coroutine", "it did not have to wait for all of the other work"


async def test_large_work_waits_for_room_and_small_work_does_not(work: Work) -> None:
    first, second = work.slices.add(work.steps("1", 4), 80), work.slices.add(work.steps("2", 2), 80)
    small = work.slices.add(work.steps("small", 1))
    await asyncio.gather(first, second, small)
    assert work.log.index("small ends") < work.log.index("1 ends")
    assert work.log.index("1 ends") < work.log.index("2")


async def test_work_larger_than_all_room_runs_alone(work: Work) -> None:
    results = [work.slices.add(work.steps(name, 2), size) for name, size in (("a", 10), ("huge", 500), ("b", 10))]
    assert await asyncio.gather(*results) == ["a", "huge", "b"]
    assert work.log.index("a ends") < work.log.index("huge") < work.log.index("huge ends") < work.log.index("b")


async def test_cancelled_work_ends_before_its_next_step_and_gives_its_room_back(work: Work) -> None:
    first, second = work.slices.add(work.steps("a", 100), 100), work.slices.add(work.steps("b", 1), 100)
    await until(lambda: "a" in work.log)
    first.cancel()
    steps = work.log.count("a")
    assert await second == "b"
    assert work.log.count("a") == steps
    assert "a ends" in work.log


async def test_cancelled_work_that_waits_for_room_ends_at_once(work: Work) -> None:
    """Otherwise a client that hangs up would leave its request in memory until all requests before it are answered."""
    first, steps = work.slices.add(work.steps("a", 100), 100), work.steps("b", 5)
    assert work.slices.begin(steps) == (False, None)
    second, third = work.slices.add(steps, 100), work.slices.add(work.steps("c", 1), 100)
    second.cancel()
    await until(lambda: "b ends" in work.log)
    assert not first.done()
    assert (work.log.count("b"), len(work.slices)) == (1, 2)
    assert [await first, await third] == ["a", "c"]


async def test_an_error_of_a_step_is_raised_to_the_awaiting_caller(work: Work) -> None:
    with pytest.raises(OSError, match="broken"):
        await work.slices.finish(work.steps("a", 3, OSError("broken")))
    assert await work.slices.add(work.steps("b", 2)) == "b"


async def test_a_failure_of_work_without_an_awaiting_caller_is_logged(work: Work) -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    failed: list[str] = []
    work.slices.do(work.steps("a", 3, OSError("broken")), lambda: failed.append("a"))
    await until(lambda: bool(told))
    assert failed == ["a"]
    assert isinstance(told[0], OSError)


async def test_a_slice_ends_although_the_clock_stands_still() -> None:
    slices = Slices(lambda: 0.0)
    made = []

    def endless() -> Steps[None]:
        while True:
            made.append(1)
            yield

    result = slices.add(endless())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert 0 < len(made) < 10_000
    result.cancel()
    await until(lambda: len(slices) == 0)


async def test_the_time_of_work_is_reported_by_slice(work: Work) -> None:
    spent: list[float] = []
    alone = work.slices.add(work.steps("a", 5), spent=spent.append)
    other = work.slices.add(work.steps("b", 5))
    await asyncio.gather(alone, other)
    assert sum(spent) == pytest.approx(5 * STEP_S)
    assert len(spent) == 3


@pytest.mark.parametrize("size", [1_025, 4_096, 60_000, 65_536, 100_000])
async def test_work_of_each_size_waits_for_room(size: int) -> None:
    """Many requests that are just not large would otherwise fill the memory together."""
    slices, begun, most = Slices(lambda: 0.0, room=10 * size), 0, 0

    def steps() -> Steps[None]:
        nonlocal begun, most
        begun += 1
        most = max(most, begun)
        for _ in range(2_000):
            yield
        begun -= 1

    await asyncio.gather(*(slices.add(steps(), size) for _ in range(100)))
    assert most == 10
    assert len(slices) == 0


async def test_smaller_work_does_not_wait_for_room_of_larger_work(work: Work) -> None:
    slices = Slices(work.clock.monotonic, slice_s=0.001, room=20_000)
    large = [slices.add(work.steps("large", 100), 20_000) for _ in range(3)]
    assert await slices.add(work.steps("smaller", 2), 16_000) == "smaller"
    assert not any(one.done() for one in large)
    assert await asyncio.gather(*large) == ["large"] * 3


async def test_coroutines_hold_room_too(work: Work) -> None:
    inside, most = 0, 0

    async def hold() -> None:
        nonlocal inside, most
        async with work.slices.room(40):
            inside += 1
            most = max(most, inside)
            await work.slices.next_slice()
            inside -= 1

    steps = work.slices.add(work.steps("a", 4), 20)
    await asyncio.gather(*(hold() for _ in range(9)), steps)
    assert most == 2
    async with work.slices.room(0):
        assert len(work.slices) == 0


async def test_a_cancelled_coroutine_gives_its_room_back_whether_it_has_it_or_not(work: Work) -> None:
    released = asyncio.Event()

    async def hold() -> None:
        async with work.slices.room(100):
            await released.wait()

    tasks = [asyncio.ensure_future(hold()) for _ in range(4)]
    await asyncio.sleep(0)
    # The second waits; the first has it, and the third gets it while it is being cancelled.
    tasks[1].cancel()
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.gather(*tasks[:3], return_exceptions=True)
    released.set()
    await tasks[3]
    assert await work.slices.add(work.steps("all room", 1), 100) == "all room"
    assert len(work.slices) == 0


class Brake:
    """Lets work pause while it is `on`."""

    def __init__(self) -> None:
        self.on = False
        self.paused: list[Callable[[], None]] = []

    def is_due(self) -> bool:
        return self.on

    def begin(self, resume: Callable[[], None]) -> None:
        self.paused.append(resume)

    def release(self) -> None:
        self.on = False
        while self.paused:
            self.paused.pop()()


async def test_work_pauses_between_two_steps_and_other_work_continues(work: Work) -> None:
    brake = Brake()
    a, b = work.slices.add(work.steps("a", 6), pausing=brake), work.slices.add(work.steps("b", 6))
    await until(lambda: "b" in work.log)
    brake.on = True
    assert await b == "b"
    assert work.log.count("a") < 6
    assert (len(brake.paused), len(work.slices), a.done()) == (1, 0, False)
    brake.release()
    assert await a == "a"


async def test_a_pause_ends_a_slice_at_its_next_step(work: Work) -> None:
    brake = Brake()
    brake.on = True
    steps = work.steps("a", 6)
    done, _ = work.slices.begin(steps, brake)
    assert (done, work.log) == (False, ["a"])
    steps.close()


async def test_work_that_is_cancelled_while_it_pauses_ends_when_it_is_resumed(work: Work) -> None:
    brake = Brake()
    brake.on = True
    a = work.slices.add(work.steps("a", 6), pausing=brake)
    await until(lambda: len(brake.paused) == 1)
    a.cancel()
    for resume in brake.paused:
        resume()
    await until(lambda: len(work.slices) == 0)
    assert "a" not in work.log
