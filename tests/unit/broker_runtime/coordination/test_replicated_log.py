"""Appends of a coordinator in one iteration of the event loop, and appends that the partition refuses."""

import asyncio
from collections.abc import Sequence

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.coordination.deciding_slices import DecidingSlices
from broker_runtime.coordination.replicated_log import BatchRefusedError, LeadershipLostError, ReplicatedLog
from broker_runtime.coordination.runtime import CoordinatorRuntime
from broker_runtime.coordination.timer_service import TimerService
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.records.batching import KeyValue
from tests.support.groups.tally import Added, Tally, TallyDecision, TallyShard
from tests.support.logs.logs import LogHouse, read_all
from tests.support.logs.replicas import leading

BATCH_BYTES_MAX = 1_000


class Led:
    """A partition that broker 1 leads alone."""

    def __init__(self) -> None:
        self.house = LogHouse(TopicConfig(max_message_bytes=2 * BATCH_BYTES_MAX))
        self.leader = leading(self.house.log, 1, epoch=3)
        self.durable = ReplicatedLog(self.leader, self.house.clock)

    def append(self, *values: bytes) -> int:
        return self.durable.append(of(*values))

    @property
    def batches(self) -> list[int]:
        """Number of records in each batch."""
        return [header.record_count for header, _ in read_all(self.house.log)]


def of(*values: bytes) -> Sequence[KeyValue]:
    return [(b"k", value) for value in values]


def test_appends_of_one_time_slice_form_one_batch_with_offsets_known_in_advance() -> None:
    led = Led()
    assert [led.append(b"1"), led.append(b"2", b"3"), led.append(b"4")] == [0, 1, 3]
    assert led.batches == []
    led.durable.flush()
    led.durable.flush()
    assert led.append(b"5") == 4
    led.durable.flush()
    assert led.batches == [4, 1]


def test_atomic_records_share_one_batch_within_the_size_limit() -> None:
    led = Led()
    half = bytes(BATCH_BYTES_MAX // 4)
    assert [led.append(half, half) for _ in range(3)] == [0, 2, 4]
    led.durable.flush()
    assert led.batches == [2, 2, 2]


def test_a_large_record_has_its_own_batch_and_its_refusal_does_not_affect_others() -> None:
    led = Led()
    assert [led.append(b"1"), led.append(bytes(BATCH_BYTES_MAX + 1)), led.append(b"3")] == [0, 1, 2]
    with pytest.raises(KafkaError) as refused:
        led.append(bytes(2 * BATCH_BYTES_MAX))
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert led.append(b"4") == 3
    led.durable.flush()
    assert led.batches == [1, 1, 1, 1]


def test_many_records_are_encoded_in_steps_and_become_one_batch_after_the_gathered_records() -> None:
    led = Led()
    assert led.append(b"1") == 0
    steps = led.durable.append_in_steps(of(*[b""] * 100))
    for _ in range(5):
        next(steps)
    assert led.batches == [], "nothing is written before all records are encoded"
    assert (at_once(steps), led.batches) == (1, [1, 100])


def test_many_records_that_the_partition_refuses_leave_the_gathered_ones() -> None:
    led = Led()
    led.append(b"1")
    with pytest.raises(KafkaError) as refused:
        at_once(led.durable.append_in_steps(of(*[bytes(BATCH_BYTES_MAX)] * 3)))
    assert (refused.value.code, led.batches) == (ErrorCode.MESSAGE_TOO_LARGE, [1])


def test_records_without_content_fill_a_batch_too() -> None:
    """Each takes some bytes beside its key and value."""
    led = Led()
    for number in range(BATCH_BYTES_MAX):
        assert led.durable.append([(b"", None)]) == number
    led.durable.flush()
    assert sum(led.batches) == BATCH_BYTES_MAX


def test_a_full_disk_refuses_before_anything_counts_as_appended() -> None:
    led = Led()
    led.house.logs.dir_health.is_full, led.house.log.files.health.usable = True, False
    with pytest.raises(KafkaError) as refused:
        led.append(b"1")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    led.durable.flush()
    assert led.batches == []


def test_a_write_that_fails_all_the_same_leaves_nothing_for_the_next_batch() -> None:
    led = Led()
    led.append(b"1")
    led.house.fs.capacity_bytes = led.house.fs.used_bytes()
    with pytest.raises(BatchRefusedError, match="orders-0 refused the records of a decision"):
        led.durable.flush()
    led.house.fs.capacity_bytes = None
    led.durable.flush()
    assert led.batches == []


def test_nothing_of_an_epoch_that_is_over_is_written() -> None:
    led = Led()
    led.append(b"1")
    led.leader.resign()
    with pytest.raises(LeadershipLostError):
        led.durable.flush()
    assert led.batches == []


async def test_a_decision_fails_when_the_log_does_not_take_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still: no time slice ends between two decisions, however busy the machine is."""
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 0.0)
    led = Led()
    timers: TimerService[TallyDecision] = TimerService()

    async def load() -> Tally:
        return Tally()

    runtime: CoordinatorRuntime[Tally, Added] = CoordinatorRuntime(
        TallyShard(load), led.durable, timers, Tally(), queue_max=10, slices=DecidingSlices()
    )
    await runtime.load()
    running = asyncio.ensure_future(runtime.run())

    async def add(name: str) -> int:
        return await runtime.submit(lambda tally: ([Added(name, 1)], len(tally.sums)))

    assert list(await asyncio.gather(add("a"), add("b"))) == [0, 1]
    assert led.batches == [2]
    led.house.fs.capacity_bytes = led.house.fs.used_bytes()
    told = await asyncio.gather(add("c"), add("d"), return_exceptions=True)
    assert [error.code for error in told if isinstance(error, KafkaError)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    with pytest.raises(BatchRefusedError, match="orders-0 refused the records of a decision"):
        await running
    assert led.batches == [2]
    with pytest.raises(KafkaError):
        await add("e")
