"""Requests that share an answer."""

import asyncio

import pytest

from sluicegate_operator.kube.cache.single_flight import SingleFlight

pytestmark = pytest.mark.virtual_time


class Source:
    """Answers with the number of the request, a second later."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self) -> int:
        self.asked += 1
        number = self.asked
        await asyncio.sleep(1.0)
        if number == 3:
            raise RuntimeError("the third goes wrong")
        return number


async def test_concurrent_callers_share_an_answer_that_began_after_they_asked() -> None:
    rounds, source = SingleFlight[int](), Source()
    first = asyncio.create_task(rounds.ask("a", source))
    await asyncio.sleep(0.5)
    rest = [asyncio.create_task(rounds.ask("a", source)) for _ in range(50)]
    assert await first == 1
    assert await asyncio.gather(*rest) == [2] * 50
    assert source.asked == 2


async def test_different_questions_do_not_wait_for_each_other() -> None:
    rounds, source = SingleFlight[int](), Source()
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    assert sorted(await asyncio.gather(rounds.ask("a", source), rounds.ask("b", source))) == [1, 2]
    assert loop.time() - started_s < 1.5


async def test_an_error_reaches_all_that_shared_the_request_and_the_next_call_starts_a_new_one() -> None:
    rounds, source = SingleFlight[int](), Source()
    source.asked = 2
    shared = [rounds.ask("a", source) for _ in range(2)]
    first, second = await asyncio.gather(*shared, return_exceptions=True)
    assert isinstance(first, RuntimeError)
    assert second == 4
    assert await rounds.ask("a", source) == 5


async def test_a_cancelled_caller_does_not_cancel_the_answer_for_others() -> None:
    rounds, source = SingleFlight[int](), Source()
    gone = asyncio.create_task(rounds.ask("a", source))
    await asyncio.sleep(0.5)
    waiting = asyncio.create_task(rounds.ask("a", source))
    await asyncio.sleep(0.1)
    gone.cancel()
    assert await waiting == 2
