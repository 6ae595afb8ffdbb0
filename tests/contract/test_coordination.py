"""The promises of a coordinator's runtime, for each kind of durable log: a journal, or a partition's high watermark.

`tests.support.coordination.places` has the places where the logs are kept.
"""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from broker_runtime.coordination import deciding_slices
from broker_runtime.coordination.replicated_log import LeadershipLostError
from broker_runtime.coordination.runtime import TermPhase
from broker_runtime.coordination.seam import (
    Decision,
)
from broker_runtime.errors import ErrorCode, KafkaError
from tests.support.coordination.places import (
    PLACES,
    QUEUE_MAX,
    PartitionPlace,
    Place,
    Process,
    codes,
    running,
    tally_of,
)
from tests.support.groups.tally import Added, Tally


@pytest.fixture(params=PLACES)
def new_place(request: pytest.FixtureRequest) -> Callable[[], Place]:
    return PLACES[request.param]


async def test_an_answer_comes_when_the_record_is_durable_and_not_before(new_place: Callable[[], Place]) -> None:
    async with running(place := new_place()) as process:
        seen = place.log.high_watermark
        place.hold()
        waiting = asyncio.ensure_future(process.add())
        await process.slices()
        assert process.runtime.state.sums == {"x": 1}
        assert (waiting.done(), place.log.high_watermark) == (False, seen)
        place.let_go()
        assert await waiting == seen
        assert place.log.high_watermark == seen + 1


async def test_each_decision_sees_those_before_it_and_knows_its_offsets(new_place: Callable[[], Place]) -> None:
    def next_number(tally: Tally) -> tuple[Sequence[Added], tuple[int, int]]:
        return [Added("x", 1), Added("y", 1)], (tally.sums.get("x", 0), tally.next_offset)

    async with running(place := new_place()) as process:
        answers = await asyncio.gather(*(process.runtime.submit(next_number) for _ in range(10)))
        assert answers == [(n, 2 * n) for n in range(10)]
        assert await tally_of(place.log, place.log.high_watermark) == process.runtime.state


async def test_all_that_wait_while_a_commit_runs_share_the_next(
    new_place: Callable[[], Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as an iteration has time for them: here it has."""
    monkeypatch.setattr(deciding_slices, "_SLICE_S", 60.0)
    async with running(place := new_place()) as process:
        place.hold()
        first = asyncio.ensure_future(process.add())
        await process.slices()
        rest = [asyncio.ensure_future(process.add()) for _ in range(QUEUE_MAX)]
        await process.slices()
        assert process.runtime.state.sums == {"x": 1}, "while a commit runs nothing is decided"
        process.shard.log.clear()
        place.let_go()
        await asyncio.gather(first, *rest)
        await process.slices()
        assert process.shard.log == ["committed", *[Added("x", 1)] * QUEUE_MAX, "committed"]


async def test_other_tasks_run_while_very_many_requests_wait(
    new_place: Callable[[], Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_runtime.coordination.runtime._GROUP_MAX", 2)
    async with running(place := new_place()) as process:
        place.hold()
        waiting = [asyncio.ensure_future(process.add()) for _ in range(QUEUE_MAX)]
        await process.slices()
        place.let_go()
        answered_in = set()
        for time_slice in range(QUEUE_MAX * 100):
            if all(each.done() for each in waiting):
                break
            answered_in.add((sum(each.done() for each in waiting), time_slice))
            await asyncio.sleep(0)
        assert len(answered_in) >= QUEUE_MAX / 2
        assert await asyncio.gather(*waiting) == list(range(QUEUE_MAX))


async def test_a_refusal_waits_for_the_change_that_it_is_based_on(new_place: Callable[[], Place]) -> None:
    def once(tally: Tally) -> tuple[Sequence[Added], None]:
        if tally.sums:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "it is there")
        return [Added("x", 1)], None

    async with running(place := new_place()) as process:
        place.hold()
        told = [asyncio.ensure_future(process.runtime.submit(once)) for _ in range(2)]
        await process.slices()
        assert not any(each.done() for each in told)
        place.let_go()
        assert codes(await asyncio.gather(*told, return_exceptions=True)) == [None, ErrorCode.INVALID_REQUEST]


async def test_refused_and_failing_decisions_write_nothing_and_block_no_other(new_place: Callable[[], Place]) -> None:
    def refuse(tally: Tally) -> tuple[Sequence[Added], None]:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "no")

    def fail(tally: Tally) -> tuple[Sequence[Added], None]:
        raise ZeroDivisionError

    async with running(place := new_place()) as process:
        submit = process.runtime.submit
        done = await asyncio.gather(submit(refuse), submit(fail), process.add(), return_exceptions=True)
        assert [type(each) for each in done] == [KafkaError, ZeroDivisionError, int]
        assert place.log.high_watermark == 1


async def test_the_queue_has_an_end(new_place: Callable[[], Place]) -> None:
    async with running(new_place()) as process:
        done = await asyncio.gather(*(process.add() for _ in range(QUEUE_MAX + 2)), return_exceptions=True)
        assert codes(done) == [*range(QUEUE_MAX), *[ErrorCode.REQUEST_TIMED_OUT] * 2]


async def test_a_decision_of_very_many_records_is_written_in_several_batches(new_place: Callable[[], Place]) -> None:
    def many(tally: Tally) -> tuple[Sequence[Added], None]:
        return [Added(f"{n:01000}", 1) for n in range(1_000)], None

    async with running(place := new_place()) as process:
        await process.runtime.submit(many)
        assert await tally_of(place.log, place.log.high_watermark) == process.runtime.state
        assert process.runtime.state.next_offset == 1_000


async def test_what_follows_of_records_belongs_to_the_same_request(new_place: Callable[[], Place]) -> None:
    async with running(new_place()) as process:
        process.shard.follows = True
        offsets = await asyncio.gather(*(process.add(name) for name in "ab"))
        assert offsets == [0, 2]
        assert process.runtime.state.sums == {"a": 1, "follows": 1, "b": 1}


async def test_a_term_opens_with_its_own_records_before_it_takes_requests(new_place: Callable[[], Place]) -> None:
    process = Process(place := new_place())
    process.shard.opens_with = [Added("term", 1)]
    place.hold()
    loading = asyncio.ensure_future(process.runtime.load())
    await process.slices()
    assert process.runtime.phase is TermPhase.LOADING
    assert codes(await asyncio.gather(process.add(), return_exceptions=True)) == [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    ]
    assert process.shard.log == [Added("term", 1)]
    place.let_go()
    await loading
    assert (process.runtime.phase, process.runtime.active) == (TermPhase.ACTIVE, True)
    assert process.shard.log == [Added("term", 1), "loaded"]
    assert place.log.high_watermark == 1


async def test_the_next_term_knows_everything_that_was_answered(new_place: Callable[[], Place]) -> None:
    async with running(place := new_place()) as process:
        await asyncio.gather(*(process.add(name) for name in "abcab"))
        before = process.runtime.state
    async with running(place) as again:
        assert again.runtime.state == before
        assert await again.add() == before.next_offset


async def test_pending_requests_fail_when_another_process_takes_the_log(new_place: Callable[[], Place]) -> None:
    place = new_place()
    async with running(place) as process:
        await process.add("a")
        place.hold()
        decided = asyncio.ensure_future(process.add("b"))
        await process.slices()
        waiting = asyncio.ensure_future(process.add("c"))
        await process.slices()
        place.give_away()
        assert codes(await asyncio.gather(decided, waiting, return_exceptions=True)) == [
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
        ]
        assert process.task is not None
        with pytest.raises(place.lost):
            await process.task
        assert (process.runtime.phase, process.runtime.active) == (TermPhase.UNLOADED, False)
        assert codes(await asyncio.gather(process.add(), return_exceptions=True)) == [ErrorCode.NOT_COORDINATOR]
    async with running(place) as again:
        assert again.runtime.state.sums["a"] == 1


async def test_nothing_is_answered_once_another_might_write_though_nothing_is_written(
    new_place: Callable[[], Place],
) -> None:
    def look(tally: Tally) -> tuple[Sequence[Added], int]:
        return (), tally.sums.get("x", 0)

    place = new_place()
    async with running(place) as process:
        asked = asyncio.ensure_future(process.runtime.submit(look))
        # It waits in the queue now, and is not decided yet.
        await asyncio.sleep(0)
        place.give_away()
        assert not process.runtime.active
        told = codes(await asyncio.gather(asked, process.add(), return_exceptions=True))
        assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR]


async def test_a_stop_fails_all_pending_requests(new_place: Callable[[], Place]) -> None:
    place = new_place()
    async with running(place) as process:
        place.hold()
        decided = asyncio.ensure_future(process.add())
        await process.slices()
        waiting = asyncio.ensure_future(process.add())
        await process.slices()
        await process.stop()
        told = codes(await asyncio.gather(decided, waiting, return_exceptions=True))
        assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR]
        process.runtime.unload()


async def test_a_cancelled_request_does_not_block_others(new_place: Callable[[], Place]) -> None:
    place = new_place()
    async with running(place) as process:
        place.hold()
        one, two = asyncio.ensure_future(process.add("a")), asyncio.ensure_future(process.add("b"))
        await process.slices()
        one.cancel()
        place.let_go()
        assert await two == 1
        assert process.runtime.state.sums == {"a": 1, "b": 1}


async def test_a_record_that_does_not_fit_ends_the_runtime_before_it_is_durable(new_place: Callable[[], Place]) -> None:
    async with running(place := new_place()) as process:
        place.hold()
        assert codes(await asyncio.gather(process.add("x", -1), return_exceptions=True)) == [
            ErrorCode.COORDINATOR_NOT_AVAILABLE
        ]
        assert process.task is not None
        with pytest.raises(ValueError, match="x would be -1"):
            await process.task
        assert place.log.high_watermark == 0


async def test_a_timer_decides_like_a_request_and_only_its_newest_setting_counts(
    new_place: Callable[[], Place], caplog: pytest.LogCaptureFixture
) -> None:
    async with running(place := new_place()) as process:
        rung = asyncio.Event()

        def at(name: str) -> Decision[Tally, Added, None]:
            def decide(tally: Tally) -> tuple[Sequence[Added], None]:
                rung.set()
                return [Added(name, 1)], None

            return decide

        def refuse(tally: Tally) -> tuple[Sequence[Added], None]:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "not now")

        process.timers.schedule("one", 0.0, at("replaced"))
        process.timers.schedule("one", 0.001, at("x"))
        process.timers.schedule_if_absent("one", 0.0, at("too late"))
        process.timers.schedule("two", 0.0, at("cancelled"))
        process.timers.cancel("two")
        process.timers.schedule("three", 0.0, refuse)
        process.timers.schedule("four", 3600.0, at("far away"))
        async with asyncio.timeout(30):
            await rung.wait()
        await process.add("y")
        assert process.runtime.state.sums == {"x": 1, "y": 1}
        assert await tally_of(place.log, place.log.high_watermark) == process.runtime.state
        assert "the timer three failed and is retried: INVALID_REQUEST: not now" in caplog.text


async def test_a_terms_end_forgets_its_timers(new_place: Callable[[], Place]) -> None:
    def never(tally: Tally) -> tuple[Sequence[Added], None]:
        raise AssertionError("a timer of the term before")

    async with running(place := new_place()) as process:
        process.timers.schedule("one", 0.0, never)
        await process.stop()
        await process.slices()
        assert place.log.high_watermark == 0


async def test_runtimes_in_one_process_know_nothing_of_each_other(new_place: Callable[[], Place]) -> None:
    places = [new_place() for _ in range(5)]
    async with running(places[0]) as first:
        others = [Process(place) for place in places[1:]]
        for other in others:
            await other.start()
        places[0].hold()
        held_up = asyncio.ensure_future(first.add())
        assert await asyncio.gather(*(other.add(str(n)) for n, other in enumerate(others))) == [0] * 4
        assert [other.runtime.state.sums for other in others] == [{str(n): 1} for n in range(4)]
        assert not held_up.done()
        places[0].let_go()
        assert await held_up == 0
        for other in others:
            await other.stop()


async def test_a_partition_with_too_few_replicas_in_sync_refuses_and_goes_on_later() -> None:
    place = PartitionPlace(1, 2)
    async with running(place) as process:
        isr, place.leader.isr = place.leader.isr, (1,)
        assert codes(await asyncio.gather(process.add(), return_exceptions=True)) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert process.runtime.state.sums == {}
        place.leader.isr = isr
        assert await process.add() == 0


async def test_a_partition_whose_disk_fails_ends_its_runtime() -> None:
    place = PartitionPlace(1, 2)
    async with running(place) as process:
        place.hold()
        waiting = asyncio.ensure_future(process.add())
        await process.slices()
        place.log.end()
        assert codes(await asyncio.gather(waiting, return_exceptions=True)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert process.task is not None
        with pytest.raises(LeadershipLostError, match="closed on this broker"):
            await process.task
