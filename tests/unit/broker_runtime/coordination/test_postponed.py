"""A decision that waits for another one is made right after it, or refused after some time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from broker_runtime.coordination.deciding_slices import DecidingSlices
from broker_runtime.coordination.postponed import PostponedDecisions
from broker_runtime.coordination.runtime import CoordinatorRuntime
from broker_runtime.coordination.seam import PostponedError, Postponement
from broker_runtime.coordination.timer_service import TimerService
from broker_runtime.errors import ErrorCode, KafkaError
from tests.support.coordination.fussy_log import FussyLog
from tests.support.groups.tally import Added, Tally, TallyDecision, TallyShard

LONG_S, SHORT_S = 60.0, 0.001
QUEUE_MAX, ITERATIONS_MAX = 10, 1_000
BUSY = Postponement("door", ErrorCode.CONCURRENT_TRANSACTIONS, "the door is closed")


class Door:
    """A runtime whose decisions of the name `door` release those that wait for it."""

    def __init__(self, timeout_s: float) -> None:
        self.log, self.postponed = FussyLog(), PostponedDecisions(timeout_s)

        async def load() -> Tally:
            return Tally()

        self.shard = TallyShard(load)
        timers = TimerService[TallyDecision]()
        self.runtime = CoordinatorRuntime(
            self.shard, self.log, timers, Tally(), QUEUE_MAX, DecidingSlices(), self.postponed
        )

    def enter(self, name: str) -> "asyncio.Future[int]":
        """Submit a decision that waits until the door is open."""

        def decide(tally: Tally) -> tuple[Sequence[Added], int]:
            if not tally.sums.get("door"):
                raise PostponedError(BUSY)
            return [Added(name, 1)], tally.next_offset

        return self.runtime.enqueue(decide)

    async def open(self) -> None:
        def decide(tally: Tally) -> tuple[Sequence[Added], None]:
            self.postponed.release("door")
            return [Added("door", 1)], None

        await self.runtime.submit(decide)


@asynccontextmanager
async def closed_door(timeout_s: float = LONG_S) -> AsyncIterator[Door]:
    door = Door(timeout_s)
    await door.runtime.load()
    task = asyncio.ensure_future(door.runtime.run())
    yield door
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until_waiting(door: Door, count: int) -> None:
    for _ in range(ITERATIONS_MAX):
        if len(door.postponed) == count:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{len(door.postponed)} decisions wait")


async def test_decisions_are_made_in_their_order_and_in_the_commit_of_the_one_that_they_wait_for() -> None:
    async with closed_door() as door:
        first, second = door.enter("first"), door.enter("second")
        await until_waiting(door, 2)
        before = door.log.commits
        await door.open()
        assert door.log.commits == before + 1
        assert (await first, await second) == (1, 2)
        assert door.log.keys == [b"door", b"first", b"second"]
        assert door.log.commits == before + 1
        assert len(door.postponed) == 0


async def test_a_decision_that_waits_too_long_is_refused() -> None:
    async with closed_door(SHORT_S) as door:
        first, second = door.enter("first"), door.enter("second")
        for answer in (first, second):
            with pytest.raises(KafkaError) as refused:
                await answer
            assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
        assert len(door.postponed) == 0
        await door.open()
        assert door.log.keys == [b"door"]


async def test_a_decision_whose_caller_has_left_is_not_made() -> None:
    async with closed_door() as door:
        answer = door.enter("first")
        await until_waiting(door, 1)
        answer.cancel()
        await door.open()
        assert door.log.keys == [b"door"]


async def test_the_end_of_the_term_refuses_decisions_that_wait() -> None:
    async with closed_door() as door:
        answer = door.enter("first")
        await until_waiting(door, 1)
        door.runtime.unload()
        with pytest.raises(KafkaError) as refused:
            await answer
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        assert len(door.postponed) == 0


async def test_decisions_that_wait_count_to_the_limit_of_the_queue() -> None:
    async with closed_door() as door:
        answers = [door.enter(f"number {number}") for number in range(QUEUE_MAX)]
        await until_waiting(door, QUEUE_MAX)
        with pytest.raises(KafkaError) as refused:
            door.enter("one more")
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        door.runtime.unload()
        await asyncio.gather(*answers, return_exceptions=True)
