"""Deadlines of answers that all may take the same time."""

import asyncio
from typing import Any

from broker_runtime.coordination.patience import Patience


def new_answers(count: int) -> list[asyncio.Future[Any]]:
    return [asyncio.get_running_loop().create_future() for _ in range(count)]


async def test_each_answer_that_is_late_is_told_and_only_those() -> None:
    patience = Patience(0.01, lambda: ValueError("late"))
    answers = new_answers(5)
    for answer in answers[:3]:
        patience.add(answer)
    patience.add(answers[4]).met = True
    answers[0].set_result(1)
    answers[2].cancel()
    async with asyncio.timeout(30):
        assert isinstance((await asyncio.gather(answers[1], return_exceptions=True))[0], ValueError)
        patience.add(answers[3])
        assert isinstance((await asyncio.gather(answers[3], return_exceptions=True))[0], ValueError)
    assert (answers[0].result(), answers[2].cancelled(), answers[4].done()) == (1, True, False)


async def test_completed_answers_are_not_kept() -> None:
    patience = Patience(60.0, lambda: ValueError("late"))
    for answer in new_answers(100):
        patience.add(answer)
        answer.set_result(None)
    assert len(patience) <= 1
    patience.close()


async def test_no_answer_times_out_after_the_close() -> None:
    ended, goes_on = (Patience(0.001, lambda: ValueError("late")) for _ in range(2))
    first, last = new_answers(2)
    ended.add(first)
    ended.close()
    goes_on.add(last)
    await asyncio.gather(last, return_exceptions=True)
    assert not first.done()
