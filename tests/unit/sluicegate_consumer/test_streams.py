"""Iteration: when records are delivered, and which ones a further request acknowledges."""

import asyncio

import pytest

from sluicegate_consumer.errors import ConsumerError, CorruptRecordsError
from sluicegate_consumer.reading import PartitionReader
from sluicegate_consumer.streams import Flow, Stream, StreamQueue
from sluicegate_consumer.wire.batches import split
from sluicegate_consumer.wire.push import PartitionOffset
from tests.support.logs.packed_batches import timed, with_body

pytestmark = pytest.mark.virtual_time

LIMIT = 1 << 20
SESSION_S = 6.0


class Delivery:
    """Two streams of one consumer, and the stream of both."""

    def __init__(self, *, acknowledge: bool = False) -> None:
        self.now = asyncio.get_running_loop().time
        self.flow = Flow(self.now)
        self.flow.lease_until(self.now() + SESSION_S)
        self.queues = [StreamQueue(), StreamQueue()]
        self.both = Stream(self.queues, self.flow, 0.002, acknowledge=acknowledge)
        self.second = Stream(self.queues[1:], self.flow, 0.002, acknowledge=acknowledge)

    def put(self, stream: int, raw: bytes) -> PartitionReader:
        part = PartitionOffset("t", stream, 0, leader=1)
        reader = PartitionReader(part, stream, LIMIT, lambda: None)
        batches = list(split(memoryview(raw)))
        reader.take(batches, batches[-1].header.last_offset + 1)
        self.queues[stream].put(reader)
        self.flow.wake()
        return reader


async def test_streams_have_their_own_records_and_the_consumer_those_of_all_in_turn() -> None:
    delivery = Delivery()
    for stream in (0, 1):
        delivery.put(stream, timed([5, 6, 7]))
    assert (await anext(delivery.second)).stream == 1
    assert sorted([(await anext(delivery.both)).stream for _ in range(4)]) == [0, 0, 1, 1]


async def test_a_waiting_stream_receives_the_next_record() -> None:
    delivery = Delivery()
    waiting = asyncio.create_task(anext(delivery.both))
    await asyncio.sleep(1.0)
    assert not waiting.done()
    delivery.put(1, timed([5]))
    assert (await waiting).offset == 0


async def test_asking_for_the_next_acknowledges_only_where_that_is_wanted() -> None:
    for acknowledge, told in ((True, 1), (False, 0)):
        delivery = Delivery(acknowledge=acknowledge)
        reader = delivery.put(0, timed([5, 6]))
        await anext(delivery.both)
        assert reader.told == 0
        await anext(delivery.both)
        assert reader.told == told


async def test_beyond_the_session_and_while_the_listener_is_told_nothing_is_delivered() -> None:
    delivery = Delivery()
    delivery.put(0, timed([5, 6, 7]))
    await anext(delivery.both)
    delivery.flow.held = True
    waiting = asyncio.create_task(anext(delivery.both))
    await asyncio.sleep(1.0)
    assert not waiting.done()
    delivery.flow.held = False
    delivery.flow.wake()
    await waiting
    await asyncio.sleep(SESSION_S)
    waiting = asyncio.create_task(anext(delivery.both))
    await asyncio.sleep(1.0)
    assert not waiting.done()
    delivery.flow.lease_until(delivery.now() + SESSION_S)
    assert (await waiting).offset == 2


async def test_other_tasks_run_while_there_are_records() -> None:
    """Virtual time does not pass without waits: the time slice is over with the first record."""
    delivery = Delivery()
    delivery.put(0, timed([5] * 10))
    slices = 0

    async def other() -> None:
        nonlocal slices
        while True:
            slices += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await anext(delivery.both)
    task.cancel()
    assert slices > 0


async def test_an_error_stays_and_nothing_behind_corrupt_records_is_delivered() -> None:
    delivery = Delivery()
    delivery.put(0, with_body(0, timed([5]), b"\x02x") + timed([5]))
    for _ in range(2):
        with pytest.raises(CorruptRecordsError):
            await anext(delivery.both)
    delivery.flow.fail(ConsumerError("a later one"))
    with pytest.raises(CorruptRecordsError):
        await anext(delivery.second)


async def test_the_end_reaches_waiting_streams() -> None:
    delivery = Delivery()
    waiting = asyncio.create_task(delivery.both.take_many(3))
    await asyncio.sleep(1.0)
    delivery.flow.end()
    with pytest.raises(StopAsyncIteration):
        await waiting
    assert [record async for record in delivery.second] == []


async def test_many_are_taken_at_once_as_far_as_there_are_some() -> None:
    delivery = Delivery(acknowledge=True)
    reader = delivery.put(0, timed([5] * 5))
    assert [len(await delivery.both.take_many(3)) for _ in range(2)] == [3, 2]
    assert reader.told == 0
