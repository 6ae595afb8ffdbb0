"""When keys are due: once each, again after failures, never dropped."""

import asyncio
from itertools import pairwise

import pytest

from sluicegate_operator.engine.work_queue import (
    FAILING_WORKERS_MAX,
    RETRY_MAX_S,
    Again,
    DueTimes,
    Retry,
    WorkQueue,
    unless_refused,
)
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError, KubeUnavailableError, NamespaceGoingError


def test_a_key_marked_twice_is_worked_on_once() -> None:
    schedule: DueTimes[str] = DueTimes()
    schedule.mark("a", 1.0)
    schedule.mark("a", 0.5)
    assert schedule.take(0.4) is None
    assert schedule.take(0.6) == "a"
    schedule.done("a", None)
    assert schedule.take(9.0) is None


def test_a_key_marked_while_it_is_worked_on_runs_again_afterwards_and_not_beside() -> None:
    schedule: DueTimes[str] = DueTimes()
    schedule.mark("a", 0.0)
    assert schedule.take(0.0) == "a"
    schedule.mark("a", 1.0)
    assert schedule.take(2.0) is None
    assert schedule.next_due_s() is None
    schedule.done("a", 60.0)
    assert schedule.take(2.0) == "a"


def test_the_key_that_is_due_longest_comes_first() -> None:
    schedule: DueTimes[str] = DueTimes()
    schedule.mark("late", 2.0)
    schedule.mark("early", 1.0)
    assert [schedule.take(3.0), schedule.take(3.0)] == ["early", "late"]


def test_failures_double_the_delay_up_to_a_bound_and_success_forgets_them() -> None:
    schedule: DueTimes[str] = DueTimes()
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
    assert Retry().delay_s(1, 0.0) == 0.25
    assert Retry().delay_s(1, 1.0) == 0.5


def test_retry_delays_grow_up_to_their_own_maximum() -> None:
    assert [Retry(1.0, 10.0).delay_s(count, 1.0) for count in range(1, 7)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_failing_keys_come_last_and_leave_workers_for_others() -> None:
    schedule: DueTimes[str] = DueTimes()
    sick = [f"sick-{number}" for number in range(FAILING_WORKERS_MAX + 4)]
    for key in sick:
        schedule.mark(key, 0.0)
        schedule.take(0.0)
        schedule.failed(key, 0.0, chance=1.0)
    schedule.mark("well", 5.0)
    assert schedule.take(10.0) == "well"
    taken = [schedule.take(10.0) for _ in sick]
    assert taken == [*sick[:FAILING_WORKERS_MAX], *[None] * 4]
    # Keys that wait for a free worker wake no worker; a key that does not fail is still taken.
    assert schedule.next_due_s() is None
    schedule.mark("another", 10.0)
    assert schedule.take(10.0) == "another"
    schedule.done(sick[0], None)
    assert schedule.take(10.0) == sick[FAILING_WORKERS_MAX]


def test_work_learns_that_its_key_was_marked_meanwhile() -> None:
    schedule: DueTimes[str] = DueTimes()
    schedule.mark("a", 0.0)
    schedule.take(0.0)
    assert not schedule.is_due("a", 1.0)
    schedule.mark("a", 1.0)
    assert schedule.is_due("a", 1.0)


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


@pytest.mark.virtual_time
async def test_sixteen_clusters_that_time_out_do_not_delay_the_others() -> None:
    loop = asyncio.get_running_loop()
    waited: list[float] = []
    marked_s = 0.0

    async def work(key: str) -> float | Retry | None:
        if key.startswith("sick"):
            await asyncio.sleep(7.0)
            return Retry(1.0, 10.0)
        waited.append(loop.time() - marked_s)
        return None

    queue = WorkQueue("test", work)
    running = asyncio.create_task(queue.run())
    for number in range(16):
        queue.mark(f"sick-{number}")
    for _ in range(50):
        await asyncio.sleep(0.7)
        marked_s = loop.time()
        queue.mark("well")
        await asyncio.sleep(0.1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(waited) == 50
    assert max(waited) < 0.01


def test_the_oldest_key_is_one_that_is_due_or_worked_on_and_no_failure_that_waits() -> None:
    schedule: DueTimes[str] = DueTimes()
    assert schedule.oldest_s(9.0) == 0
    schedule.mark("a", 1.0)
    schedule.mark("later", 100.0)
    assert schedule.oldest_s(5.0) == 4
    schedule.take(5.0)
    assert schedule.oldest_s(5.0) == 0
    assert schedule.oldest_s(65.0) == 60
    schedule.failed("a", 65.0, chance=1.0)
    assert schedule.oldest_s(65.0) == 0


async def test_each_of_many_due_keys_starts_in_an_iteration_of_its_own() -> None:
    turn, began = 0, []

    async def work(key: int) -> None:
        began.append(turn)

    queue: WorkQueue[int] = WorkQueue("test", work)
    for key in range(5):
        queue.mark(key)
    running = asyncio.create_task(queue.run())
    for _ in range(20):
        await asyncio.sleep(0)
        turn += 1
    running.cancel()
    assert len(set(began)) == len(began) == 5


@pytest.mark.virtual_time
async def test_work_after_the_refusal_of_one_object_is_repeated_as_soon_as_the_other_objects_need_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    times: list[float] = []

    async def work(_: str) -> Again:
        times.append(asyncio.get_running_loop().time())
        refusals = Refusals()
        with refusals.kept():
            raise KubeError("500 failed calling webhook", 500, retriable=True)
        return unless_refused(refusals, 2.0)

    queue = WorkQueue("test", work)
    running = asyncio.create_task(queue.run())
    queue.mark("a")
    await asyncio.sleep(60.0)
    running.cancel()
    assert max(after - before for before, after in pairwise(times)) <= 2.1
    assert len(times) > 30
    assert [one.getMessage()[:36] for one in caplog.records if one.levelname == "WARNING"] == [
        "test a: 500 failed calling webhook; "
    ]


def test_refusals_keep_the_first_that_may_pass_and_let_pass_what_concerns_all() -> None:
    for_good, for_now = KubeError("422", 422), KubeError("500", 500, retriable=True)
    refusals = Refusals()
    for error in (for_good, for_now, KubeError("other", 500, retriable=True)):
        with refusals.kept():
            raise error
    assert refusals.first is for_now
    for all_ in (
        KubeUnavailableError("no answer"),
        NamespaceGoingError("it is being deleted"),
        KubeError("busy", 429, retriable=True),
    ):
        with pytest.raises(KubeError), Refusals().kept():
            raise all_
    assert unless_refused(Refusals(), 7.0) == 7.0
