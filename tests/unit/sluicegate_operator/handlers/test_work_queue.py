"""When keys are due: once each, again after failures, never dropped."""

import asyncio

from sluicegate_operator.handlers.work_queue import RETRY_MAX_S, Schedule, WorkQueue, retry_delay_s
from sluicegate_operator.kube.errors import KubeUnavailableError


def test_a_key_marked_twice_is_worked_on_once() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.mark("a", 1.0)
    schedule.mark("a", 0.5)
    assert schedule.take(0.4) is None
    assert schedule.take(0.6) == "a"
    schedule.done("a", None)
    assert schedule.take(9.0) is None


def test_a_key_marked_while_it_is_worked_on_runs_again_afterwards_and_not_beside() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.mark("a", 0.0)
    assert schedule.take(0.0) == "a"
    schedule.mark("a", 1.0)
    assert schedule.take(2.0) is None
    assert schedule.next_due_s() is None
    schedule.done("a", 60.0)
    assert schedule.take(2.0) == "a"


def test_the_key_that_is_due_longest_comes_first() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.mark("late", 2.0)
    schedule.mark("early", 1.0)
    assert [schedule.take(3.0), schedule.take(3.0)] == ["early", "late"]


def test_failures_double_the_delay_up_to_a_bound_and_success_forgets_them() -> None:
    schedule: Schedule[str] = Schedule()
    delays = []
    now_s = 0.0
    for _ in range(10):
        schedule.mark("a", now_s)
        assert schedule.take(now_s) == "a"
        delays.append(schedule.failed("a", now_s, chance=1.0))
        now_s += delays[-1]
    assert delays[:4] == [0.5, 1.0, 2.0, 4.0]
    assert max(delays) == RETRY_MAX_S
    assert schedule.take(now_s) == "a"
    schedule.done("a", None)
    schedule.mark("a", now_s)
    schedule.take(now_s)
    assert schedule.failed("a", now_s, chance=1.0) == 0.5


def test_chance_spreads_over_half_of_the_delay() -> None:
    assert retry_delay_s(1, 0.0) == 0.25
    assert retry_delay_s(1, 1.0) == 0.5


def test_work_that_fails_is_tried_again_and_other_keys_go_on() -> None:
    async def run() -> list[str]:
        done: list[str] = []
        attempts = 0
        finished = asyncio.Event()

        async def work(key: str) -> float | None:
            nonlocal attempts
            if key == "bad" and (attempts := attempts + 1) == 1:
                raise KubeUnavailableError("the API server does not answer")
            done.append(key)
            if len(done) == 2:
                finished.set()
            return None

        queue = WorkQueue("test", work)
        queue.mark("bad")
        queue.mark("good")
        running = asyncio.create_task(queue.run())
        async with asyncio.timeout(5):
            await finished.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert queue.depth == 0
        return done

    assert asyncio.run(run()) == ["good", "bad"]
