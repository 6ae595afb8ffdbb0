"""A coordinator's runtime reports the requests that its log does not take completely."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from broker_runtime.coordination.deciding_slices import DecidingSlices
from broker_runtime.coordination.runtime import CoordinatorRuntime
from broker_runtime.coordination.seam import AtomicBatch
from broker_runtime.coordination.timer_service import TimerService
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.records.batching import KeyValue
from tests.support.coordination.fussy_log import FussyLog
from tests.support.groups.tally import Added, Tally, TallyDecision, TallyShard


@asynccontextmanager
async def running(
    log: FussyLog, timers: TimerService[TallyDecision] | None = None
) -> AsyncIterator[CoordinatorRuntime[Tally, Added]]:
    async def load() -> Tally:
        return Tally()

    runtime = CoordinatorRuntime(
        TallyShard(load), log, timers or TimerService[TallyDecision](), Tally(), 10, DecidingSlices()
    )
    await runtime.load()
    task = asyncio.ensure_future(runtime.run())
    yield runtime
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_decision_refused_by_the_log_fails_with_the_logs_error_and_writes_nothing() -> None:
    log = FussyLog()
    async with running(log) as runtime:
        with pytest.raises(KafkaError) as refused:
            await runtime.submit(lambda tally: ([Added("a", 1), Added("bad", 1)], None))
        assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
        assert (log.keys, runtime.state.sums) == ([], {})
        await runtime.submit(lambda tally: ([Added("a", 1)], None))
        assert runtime.state.sums == {"a": 1}


async def test_a_decision_that_the_log_took_in_part_fails_as_not_available() -> None:
    log = FussyLog()
    records = [Added(f"name-{number}", 1) for number in range(100)] + [Added("bad", 1)]
    async with running(log) as runtime:
        with pytest.raises(KafkaError) as refused:
            await runtime.submit(lambda tally: (records, None))
        assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert 0 < len(log.keys) < 101
        assert len(runtime.state.sums) == len(log.keys), "state and log are the same"


async def test_no_record_of_an_atomic_batch_is_written_if_one_is_too_large() -> None:
    log = FussyLog()
    records = [Added(f"name-{number}", 1) for number in range(100)] + [Added("n" * 900, 1)]
    async with running(log) as runtime:
        with pytest.raises(KafkaError) as refused:
            await runtime.submit(lambda tally: (records, None))
        assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
        assert (log.keys, runtime.state.sums) == ([], {})


class SlowLog(FussyLog):
    """A log whose records are durable when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.durable = asyncio.Event()
        self.durable.set()

    async def commit(self) -> None:
        await self.durable.wait()


@pytest.mark.parametrize("put_off", [True, False])
async def test_a_timer_postponed_while_it_waited_for_a_commit_does_not_run(put_off: bool) -> None:
    """An example is a member's heartbeat that waits in the queue before the end of its session."""
    log, timers = SlowLog(), TimerService[TallyDecision]()

    async def load() -> Tally:
        return Tally()

    def at_the_end(tally: Tally) -> tuple[Sequence[Added], None]:
        return [Added("ended", 1)], None

    def heartbeat(tally: Tally) -> tuple[Sequence[Added], None]:
        if put_off:
            timers.schedule("session", 60.0, at_the_end)
        return (), None

    runtime = CoordinatorRuntime(TallyShard(load), log, timers, Tally(), 10, DecidingSlices())
    await runtime.load()
    running = asyncio.ensure_future(runtime.run())
    log.durable.clear()
    stuck = asyncio.ensure_future(runtime.submit(lambda tally: ([Added("a", 1)], None)))
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(runtime.submit(heartbeat))
    await asyncio.sleep(0)
    timers.schedule("session", 0.0, at_the_end)
    for _ in range(3):
        await asyncio.sleep(0)
    assert "session" not in timers, "it is due"
    log.durable.set()
    await asyncio.gather(stuck, waiting)
    await runtime.submit(lambda tally: ((), None))
    assert runtime.state.sums == ({"a": 1} if put_off else {"a": 1, "ended": 1})
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class RefusingLog(FussyLog):
    """A log that takes nothing for a while, as without enough replicas."""

    refusals = 3

    def append(self, records: Sequence[KeyValue]) -> int:
        if self.refusals:
            self.refusals -= 1
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "too few replicas")
        return super().append(records)


async def test_a_timer_that_the_log_refuses_is_tried_again_until_it_is_taken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An example is the end of a gone member's session: otherwise the member would keep its partitions for ever."""
    monkeypatch.setattr("broker_runtime.coordination.runtime._TIMER_RETRY_S", 0.0)
    log, timers = RefusingLog(), TimerService[TallyDecision]()

    async def load() -> Tally:
        return Tally()

    taken = asyncio.Event()

    def at_the_end(tally: Tally) -> tuple[Sequence[Added], None]:
        if not log.refusals:
            taken.set()
        return [Added("ended", 1)], None

    runtime = CoordinatorRuntime(TallyShard(load), log, timers, Tally(), 10, DecidingSlices())
    await runtime.load()
    running = asyncio.ensure_future(runtime.run())
    timers.schedule("session", 0.0, at_the_end)
    await taken.wait()
    await runtime.submit(lambda tally: ((), None))
    assert (runtime.state.sums, "session" in timers) == ({"ended": 1}, False)
    assert caplog.text.count("is retried") == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_timer_whose_next_step_counts_on_what_the_log_refused_is_tried_again_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Examples are the chunks of an assignment, or of offsets that are deleted with their topic.

    No chunk may be left out.
    """
    monkeypatch.setattr("broker_runtime.coordination.runtime._TIMER_RETRY_S", 0.0)
    log, timers = RefusingLog(), TimerService[TallyDecision]()
    log.refusals = 1
    done = asyncio.Event()

    async def load() -> Tally:
        return Tally()

    def step(number: int) -> TallyDecision:
        def decide(tally: Tally) -> tuple[Sequence[Added], None]:
            if number < 3:
                timers.schedule("chunks", 0.0, step(number + 1))
            else:
                done.set()
            return [Added(f"chunk-{number}", 1)], None

        return decide

    runtime = CoordinatorRuntime(TallyShard(load), log, timers, Tally(), 10, DecidingSlices())
    await runtime.load()
    running = asyncio.ensure_future(runtime.run())
    timers.schedule("chunks", 0.0, step(1))
    await done.wait()
    await runtime.submit(lambda tally: ((), None))
    assert list(runtime.state.sums) == ["chunk-1", "chunk-2", "chunk-3"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_synchronous_read_never_waits_and_sees_only_durable_state() -> None:
    log = SlowLog()

    async def load() -> Tally:
        return Tally()

    def look(tally: Tally) -> dict[str, int] | None:
        return dict(tally.sums)

    runtime = CoordinatorRuntime(TallyShard(load), log, TimerService[TallyDecision](), Tally(), 10, DecidingSlices())
    assert runtime.at_once(look) is None, "nothing is loaded"
    await runtime.load()
    running = asyncio.ensure_future(runtime.run())
    assert runtime.at_once(look) == {}
    assert runtime.at_once(lambda tally: None) is None
    log.durable.clear()
    adding = asyncio.ensure_future(runtime.submit(lambda tally: ([Added("a", 1)], None)))
    await asyncio.sleep(0)
    assert runtime.at_once(look) is None, "somebody waits to be decided"
    await asyncio.sleep(0)
    assert runtime.state.sums == {"a": 1}
    assert runtime.at_once(look) is None, "what was decided is not durable"
    log.durable.set()
    await adding
    assert runtime.at_once(look) == {"a": 1}
    log.held = False
    assert runtime.at_once(look) is None, "the log is another's"
    log.held = True
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert runtime.at_once(look) is None, "its term has ended"


async def test_the_log_takes_an_atomic_batch_as_a_whole_or_not_at_all() -> None:
    log = FussyLog()
    records = [Added(f"a longer name-{number}", 1) for number in range(100)]
    async with running(log) as runtime:
        with pytest.raises(KafkaError) as refused:
            await runtime.submit(lambda tally: (AtomicBatch(records), None))
        assert refused.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
        assert (log.keys, runtime.state.sums) == ([], {})
        await runtime.submit(lambda tally: (AtomicBatch(records[:40]), None))
        assert (log.batches, len(runtime.state.sums)) == (1, 40)


@pytest.mark.parametrize(
    ("code", "again"), [(ErrorCode.NOT_ENOUGH_REPLICAS, True), (ErrorCode.RECORD_LIST_TOO_LARGE, False)]
)
async def test_a_timer_is_tried_again_where_the_log_may_take_its_records_later(code: ErrorCode, again: bool) -> None:
    tried = asyncio.Event()

    def refuse(tally: Tally) -> tuple[Sequence[Added], None]:
        tried.set()
        raise KafkaError(code, "not now")

    timers = TimerService[TallyDecision]()
    async with running(FussyLog(), timers):
        timers.schedule("key", 0.0, refuse)
        await tried.wait()
        await asyncio.sleep(0)
        assert ("key" in timers) is again


async def test_a_due_timer_runs_although_earlier_requests_set_it_again() -> None:
    """An example is the next assignment of a group whose members never leave the queue empty."""
    log, timers = SlowLog(), TimerService[TallyDecision]()

    def assign(tally: Tally) -> tuple[Sequence[Added], None]:
        return [Added("assigned", 1)], None

    def heartbeat(tally: Tally) -> tuple[Sequence[Added], int]:
        timers.schedule_if_absent("assignment", 0.0, assign)
        return (), tally.sums.get("assigned", 0)

    async with running(log, timers) as runtime:
        log.durable.clear()
        waiting = [asyncio.ensure_future(runtime.submit(heartbeat)) for _ in range(2)]
        await asyncio.sleep(0)
        while "assignment" in timers or len(waiting) < 4:
            waiting.append(asyncio.ensure_future(runtime.submit(heartbeat)))
            await asyncio.sleep(0)
        waiting.append(asyncio.ensure_future(runtime.submit(heartbeat)))
        await asyncio.sleep(0)
        log.durable.set()
        await asyncio.gather(*waiting)
        assert await runtime.submit(heartbeat) == 1


async def test_a_decision_in_chunks_precedes_waiting_requests_and_repeats_a_refused_chunk() -> None:
    log, timers = FussyLog(), TimerService[TallyDecision]()

    def chunk_of(number: int) -> TallyDecision:
        def decide(tally: Tally) -> tuple[Sequence[Added], None]:
            if number < 3:
                timers.continue_with("adoption", chunk_of(number + 1))
            return [Added(f"chunk-{number}", 1)], None

        return decide

    def refused(tally: Tally) -> tuple[Sequence[Added], None]:
        timers.continue_with("adoption", chunk_of(0))
        return [Added("bad", 1)], None

    def look(tally: Tally) -> tuple[Sequence[Added], int]:
        return (), len(tally.sums)

    async with running(log, timers) as runtime:
        seen = await asyncio.gather(runtime.submit(chunk_of(0)), runtime.submit(look))
        assert seen[1] == 4
        with pytest.raises(KafkaError):
            await runtime.submit(refused)
        assert await runtime.submit(look) == 4
        assert log.keys == [b"chunk-0", b"chunk-1", b"chunk-2", b"chunk-3"]


async def test_a_request_sent_in_time_is_decided_before_a_timer_that_was_due_before_it_was_read() -> None:
    """In an overloaded coordinator heartbeats come after the ends of sessions, and must still count."""
    log, timers, decided = SlowLog(), TimerService[TallyDecision](), list[str]()

    def note(what: str) -> TallyDecision:
        def decide(tally: Tally) -> tuple[Sequence[Added], None]:
            decided.append(what)
            return (), None

        return decide

    async with running(log, timers) as runtime:
        log.durable.clear()
        first = asyncio.ensure_future(runtime.submit(note("first")))
        await asyncio.sleep(0)
        timers.on_due("session", note("the end of a session"))
        runtime.post(note("a heartbeat"))
        log.durable.set()
        await first
        await runtime.submit(note("later"))
    assert decided[:3] == ["first", "a heartbeat", "the end of a session"]


async def test_timers_have_iterations_however_many_requests_wait() -> None:
    log, timers, rounds = FussyLog(), TimerService[TallyDecision](), 0
    async with running(log, timers) as runtime:
        ended = asyncio.Event()

        def again(tally: Tally) -> tuple[Sequence[Added], None]:
            nonlocal rounds
            rounds += 1
            for _ in range(0 if ended.is_set() else 2 if rounds < 2_000 else 1):
                runtime.post(again)
            return (), None

        def end(tally: Tally) -> tuple[Sequence[Added], None]:
            ended.set()
            return (), None

        runtime.post(again)
        timers.on_due("session", end)
        async with asyncio.timeout(20):
            await ended.wait()


async def test_post_is_refused_by_an_inactive_runtime_only() -> None:
    log = FussyLog()
    async with running(log) as runtime:
        for _ in range(50):
            runtime.post(lambda tally: ([Added("a", 1)], None))
        with pytest.raises(KafkaError):
            runtime.enqueue(lambda tally: ((), None))
        await asyncio.sleep(0.01)
        assert runtime.state.sums == {"a": 50}
        runtime.unload()
        with pytest.raises(KafkaError):
            runtime.post(lambda tally: ((), None))


STEPS = 20_000


def in_steps(records: Sequence[Added], seen: list[int], error: KafkaError | None = None) -> TallyDecision:
    """A decision of very many steps, which notes the log's end at each of them."""

    def decide(tally: Tally) -> Steps[tuple[Sequence[Added], None]]:
        for _ in range(STEPS):
            seen.append(tally.next_offset)
            yield
        if error is not None:
            raise error
        return records, None

    return decide


async def test_nothing_else_is_decided_while_a_decision_is_made_in_steps() -> None:
    log, seen = FussyLog(), list[int]()
    async with running(log) as runtime:
        slow = asyncio.ensure_future(runtime.submit(in_steps([Added("slow", 1)], seen)))
        quick = asyncio.ensure_future(runtime.submit(lambda tally: ([Added("quick", 1)], None)))
        iterations = 0
        while not slow.done():
            await asyncio.sleep(0)
            iterations += 1
        await quick
    assert iterations > 3, "others have their iterations meanwhile"
    assert (len(seen), set(seen)) == (STEPS, {0})
    assert log.keys == [b"slow", b"quick"]


async def test_many_records_are_written_over_iterations_in_their_order() -> None:
    log = FussyLog()
    records = [Added(f"name-{number}", 1) for number in range(1_000)]
    async with running(log) as runtime:
        await runtime.submit(lambda tally: (records, None))
        assert log.keys == [record.name.encode() for record in records]
        assert runtime.state.sums == {record.name: 1 for record in records}
        assert runtime.state.next_offset == 1_000


async def test_a_decision_that_fails_after_many_steps_writes_nothing() -> None:
    log, seen = FussyLog(), list[int]()
    async with running(log) as runtime:
        with pytest.raises(KafkaError) as refused:
            await runtime.submit(in_steps((), seen, KafkaError(ErrorCode.INVALID_REQUEST, "no")))
        assert refused.value.code == ErrorCode.INVALID_REQUEST
        assert log.keys == []
        await runtime.submit(lambda tally: ([Added("a", 1)], None))
        assert runtime.state.sums == {"a": 1}


async def test_a_decision_in_steps_fails_when_the_term_ends() -> None:
    log, seen = FussyLog(), list[int]()
    async with running(log) as runtime:
        slow = asyncio.ensure_future(runtime.submit(in_steps((), seen)))
        for _ in range(3):
            await asyncio.sleep(0)
    with pytest.raises(KafkaError) as refused:
        await slow
    assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert 0 < len(seen) < STEPS


async def test_what_waits_until_records_are_taken_is_not_done_for_those_that_are_refused() -> None:
    timers, done = TimerService[TallyDecision](), list[str]()
    many = [Added(f"name-{number}", 1) for number in range(100)]

    def adding(what: str, *records: Added) -> TallyDecision:
        def decide(tally: Tally) -> tuple[Sequence[Added], None]:
            timers.once_taken(lambda: done.append(f"{what} of {sum(tally.sums.values())}"))
            return records, None

        return decide

    def failing(tally: Tally) -> tuple[Sequence[Added], None]:
        timers.once_taken(lambda: done.append("never"))
        raise KafkaError(ErrorCode.INVALID_REQUEST)

    async with running(FussyLog(), timers) as runtime:
        for refused in (failing, adding("refused", Added("bad", 1)), adding("in part", *many, Added("bad", 1))):
            with pytest.raises(KafkaError):
                await runtime.submit(refused)
        assert len(done) == 1
        assert done[0].startswith("in part of ")
        await runtime.submit(adding("nothing"))
        await runtime.submit(adding("many", *many))
    assert [line.split(" of ")[0] for line in done] == ["in part", "nothing", "many"]
    assert done[2] == f"many of {sum(runtime.state.sums.values())}"


async def test_what_waits_until_records_are_taken_is_forgotten_at_the_end_of_a_term() -> None:
    timers, done = TimerService[TallyDecision](), list[str]()
    async with running(FussyLog(), timers) as runtime:
        timers.once_taken(lambda: done.append("never"))
        runtime.unload()
        await runtime.load()
        await runtime.submit(lambda tally: ([Added("a", 1)], None))
    assert done == []


async def test_an_urgent_request_is_decided_before_those_that_were_queued_earlier() -> None:
    order: list[str] = []
    urgent: list[asyncio.Future[None]] = []
    async with running(FussyLog()) as runtime:

        def deciding(name: str) -> TallyDecision:
            def decide(tally: Tally) -> tuple[Sequence[Added], None]:
                order.append(name)
                if name == "first":
                    urgent.append(runtime.enqueue(deciding("urgent"), urgent=True))
                return (), None

            return decide

        await asyncio.gather(*(runtime.enqueue(deciding(name)) for name in ("first", "second", "third")), *urgent)
    assert order == ["first", "urgent", "second", "third"]
    assert urgent[0].done()


async def test_a_full_queue_refuses_no_urgent_request() -> None:
    async with running(FussyLog()) as runtime:
        waiting = [runtime.enqueue(lambda tally: ((), None)) for _ in range(10)]
        with pytest.raises(KafkaError):
            runtime.enqueue(lambda tally: ((), None))
        await runtime.submit(lambda tally: ((), None), urgent=True)
        await asyncio.gather(*waiting)


async def test_requests_are_answered_before_a_long_queue_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, late_s = asyncio.get_running_loop(), 0.0
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + late_s)
    answered_before: list[int] = []
    async with running(FussyLog()) as runtime:
        answers: list[asyncio.Future[None]] = []

        def slow(tally: Tally) -> tuple[Sequence[Added], None]:
            nonlocal late_s
            late_s += 0.06
            answered_before.append(sum(answer.done() for answer in answers))
            return (), None

        answers += [runtime.enqueue(slow) for _ in range(6)]
        await asyncio.gather(*answers)
    assert answered_before == [0, 0, 2, 2, 4, 4]
