"""Reading from leaders with scripted answers, in virtual time."""

import asyncio
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from kafka_bytes.push.messages import Broker
from sluicegate_consumer.brokers import BrokerLink, Brokers
from sluicegate_consumer.config import Settings
from sluicegate_consumer.errors import Code, CorruptRecordsError, FetchRefusedError
from sluicegate_consumer.fetching import Fetching, alone
from sluicegate_consumer.reading import PartitionReader
from sluicegate_consumer.wire import kafka
from sluicegate_consumer.wire.fetch import FetchedPartition
from sluicegate_consumer.wire.fields import INT8, INT16, INT32, INT64, items, text
from sluicegate_consumer.wire.kafka import Request
from sluicegate_consumer.wire.push import PartitionOffset
from tests.support.logs.packed_batches import timed

pytestmark = pytest.mark.virtual_time

NODES = (Broker(1, "k1", 9092), Broker(2, "k2", 9092))
NOTHING = INT32.pack(0)
ENDED = ConnectionResetError("it has ended")
Answer = bytes | Exception


def fetched(records: bytes = b"", code: int = 0, partition: int = 0) -> bytes:
    """A Fetch response of version 11, for one partition of `t`."""
    part = struct.pack(">ihqqqii", partition, code, 9, 9, 0, 0, -1) + INT32.pack(len(records)) + records
    return struct.pack(">ihi", 0, 0, 0) + items(INT32, [text("t") + items(INT32, [part])])


def listed(offset: int, code: int = 0) -> bytes:
    part = struct.pack(">ihqqi", 0, code, -1, offset, 0)
    return NOTHING + items(INT32, [text("t") + items(INT32, [part])])


def led_by(node: int, epoch: int = 1) -> bytes:
    brokers = items(
        INT32, [INT32.pack(each.id) + text(each.host) + INT32.pack(each.port) + INT16.pack(-1) for each in NODES]
    )
    part = struct.pack(">hiii", 0, 0, node, epoch) + 3 * NOTHING
    topic = INT16.pack(0) + text("t") + INT8.pack(0) + items(INT32, [part])
    return NOTHING + brokers + INT16.pack(-1) + INT32.pack(1) + items(INT32, [topic])


def batch(first: int, records: int = 1) -> bytes:
    return INT64.pack(first) + timed([5] * records)[8:]


class Link(BrokerLink):
    """Gives the scripted answers, then none."""

    def __init__(self, broker: Broker, asked: list[tuple[int, int]]) -> None:
        super().__init__(broker, Settings())
        self.fetch_version = 11
        self.answers: dict[int, deque[Answer]] = {}
        self.bodies: list[bytes] = []
        self._asked = asked

    async def ready(self) -> None:
        pass

    async def ask(self, request: Request, wait_s: float = 0.0) -> memoryview:
        self._asked.append((self.broker.id, request.api_key))
        self.bodies.append(request.body)
        answers = self.answers.get(request.api_key)
        if not answers:
            await asyncio.sleep(1_000_000)
            raise AssertionError("nobody waits for so long")
        answer = answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return memoryview(answer)


class Cluster(Brokers):
    """Two brokers, and the requests to them."""

    def __init__(self) -> None:
        super().__init__([("k1", 9092)], Settings())
        self.asked: list[tuple[int, int]] = []
        self.links = {broker.id: Link(broker, self.asked) for broker in NODES}
        self.learn(NODES)

    def answer(self, node: int, api: int, *answers: Answer) -> None:
        self.links[node].answers.setdefault(api, deque()).extend(answers)

    def link(self, node: int) -> BrokerLink | None:
        return self.links.get(node)


class Reading:
    """One assignment, and its results."""

    def __init__(self, cluster: Cluster, parts: Sequence[PartitionOffset], settings: Settings) -> None:
        self.readers = [PartitionReader(part, 0, 1 << 20, self._room) for part in parts]
        self.offsets: list[int] = []
        self.errors: list[Exception] = []
        self.takes = True
        self.fetching = Fetching(self.readers, cluster, settings, self._deliver, self.errors.append)

    def _room(self) -> None:
        self.fetching.wake()

    def _deliver(self, reader: PartitionReader) -> None:
        while self.takes and reader.has_more:
            record = reader.next_record()
            if record is not None:
                self.offsets.append(record.offset)


@asynccontextmanager
async def reading(cluster: Cluster, *parts: PartitionOffset, **settings: Any) -> AsyncIterator[Reading]:
    found = Reading(cluster, parts, Settings(**settings))
    found.fetching.start()
    try:
        yield found
    finally:
        found.fetching.stop()
        await asyncio.sleep(0)


async def until(true: Callable[[], object]) -> None:
    for _ in range(1_000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to that")


HERE = PartitionOffset("t", 0, 3, leader=1)


async def test_the_next_fetch_begins_after_the_last_batch() -> None:
    cluster = Cluster()
    cluster.answer(1, kafka.FETCH, fetched(batch(3, 2)), fetched(), fetched(batch(5) + batch(6)[:-4]))
    async with reading(cluster, HERE) as found:
        await until(lambda: len(cluster.asked) == 4)
    assert found.offsets == [3, 4, 5]
    assert found.readers[0].fetch_offset == 6
    assert found.errors == []


async def test_a_broker_that_sends_only_earlier_batches_is_reported_as_corrupt() -> None:
    cluster = Cluster()
    cluster.answer(1, kafka.FETCH, fetched(batch(1, 2)))
    async with reading(cluster, HERE) as found:
        await until(lambda: found.errors)
    assert "no complete batch at offset 3" in str(found.errors[0])
    assert isinstance(found.errors[0], CorruptRecordsError)


async def test_a_place_of_the_log_is_looked_up_first() -> None:
    cluster = Cluster()
    cluster.answer(1, kafka.LIST_OFFSETS, listed(3))
    cluster.answer(1, kafka.FETCH, fetched(batch(3)))
    async with reading(cluster, HERE._replace(offset=-2)) as found:
        await until(lambda: found.offsets)
    assert cluster.asked[:2] == [(1, kafka.LIST_OFFSETS), (1, kafka.FETCH)]
    assert found.offsets == [3]


@pytest.mark.parametrize(
    "why",
    [
        ENDED,
        TimeoutError(),
        fetched(code=Code.NOT_LEADER_OR_FOLLOWER),
        fetched(code=Code.FENCED_LEADER_EPOCH),
        fetched(code=Code.UNKNOWN_LEADER_EPOCH),
        fetched(code=Code.KAFKA_STORAGE_ERROR),
        fetched(code=999),
        b"\x00",
        fetched(partition=1),
    ],
)
async def test_the_new_leader_is_read_from_where_the_old_one_ended(why: Answer) -> None:
    cluster = Cluster()
    cluster.answer(1, kafka.FETCH, fetched(batch(3)), why)
    for node in (1, 2):
        cluster.answer(node, kafka.METADATA, led_by(2))
    cluster.answer(2, kafka.FETCH, fetched(batch(4)))
    async with reading(cluster, HERE) as found:
        await until(lambda: len(found.offsets) == 2)
    assert found.offsets == [3, 4]
    assert found.readers[0].leader == 2
    assert found.errors == []


async def test_metadata_requests_repeat_with_growing_delays_until_a_leader_exists() -> None:
    cluster = Cluster()
    for node in (1, 2):
        cluster.answer(node, kafka.METADATA, ENDED, led_by(-1), led_by(1))
    cluster.answer(1, kafka.FETCH, fetched(batch(3)))
    began_s = asyncio.get_running_loop().time()
    async with reading(cluster, HERE._replace(leader=-1), backoff_min_s=1.0) as found:
        await until(lambda: found.offsets)
    assert asyncio.get_running_loop().time() - began_s > 1.5
    assert [api for _, api in cluster.asked].count(kafka.METADATA) == 5


async def test_a_broker_that_does_not_know_of_the_last_leader_yet_is_not_believed() -> None:
    cluster = Cluster()
    cluster.answer(1, kafka.FETCH, fetched(code=Code.NOT_LEADER_OR_FOLLOWER))
    cluster.answer(1, kafka.METADATA, led_by(1, epoch=4))
    cluster.answer(2, kafka.METADATA, led_by(1, epoch=4))
    async with reading(cluster, HERE) as found:
        found.readers[0].leader_epoch = 5
        await until(lambda: len(cluster.asked) == 3)
        assert found.readers[0].leader == -1


async def test_an_offset_out_of_the_log_stops_only_its_partition() -> None:
    cluster = Cluster()
    cluster.answer(1, kafka.FETCH, fetched(code=Code.OFFSET_OUT_OF_RANGE), fetched(batch(3), partition=1))
    async with reading(cluster, HERE, HERE._replace(partition=1)) as found:
        await until(lambda: found.offsets)
    assert [reader.out_of_range for reader in found.readers] == [True, False]


@pytest.mark.parametrize(("times", "offsets"), [(3, [3]), (4, [])])
async def test_records_that_stay_corrupt_are_an_error_and_those_that_do_not_are_read(
    times: int, offsets: list[int]
) -> None:
    good = batch(3)
    bad = good[:-1] + bytes([good[-1] ^ 1])
    cluster = Cluster()
    cluster.answer(1, kafka.FETCH, *[fetched(bad)] * times, fetched(good))
    for node in (1, 2):
        cluster.answer(node, kafka.METADATA, *[led_by(1)] * times)
    async with reading(cluster, HERE) as found:
        await until(lambda: found.offsets or found.errors)
    assert found.offsets == offsets
    assert [type(error) for error in found.errors] == [CorruptRecordsError] * (not offsets)


async def test_a_partition_that_may_not_be_read_is_an_error() -> None:
    cluster = Cluster()
    cluster.answer(1, kafka.FETCH, fetched(code=Code.TOPIC_AUTHORIZATION_FAILED))
    async with reading(cluster, HERE) as found:
        await until(lambda: found.errors)
    assert isinstance(found.errors[0], FetchRefusedError)


async def test_a_partition_without_prefetch_room_is_not_fetched_until_it_has_some() -> None:
    cluster = Cluster()
    cluster.answer(1, kafka.FETCH, fetched(batch(3)), fetched(batch(4)), fetched(batch(5)))
    async with reading(cluster, HERE, partition_prefetch_bytes_max=1) as found:
        found.takes = False
        await until(lambda: found.readers[0].has_more)
        await asyncio.sleep(10)
        assert len(cluster.asked) == 1
        found.takes = True
        found._deliver(found.readers[0])
        await until(lambda: len(found.offsets) == 3)


async def test_records_after_a_stop_are_ignored() -> None:
    cluster = Cluster()
    async with reading(cluster, HERE) as found:
        await until(lambda: cluster.asked)
    assert found.readers[0].dropped
    assert found.offsets == []


async def test_a_stream_that_nobody_reads_from_stops_no_other() -> None:
    cluster = Cluster()
    one = batch(3)
    cluster.answer(1, kafka.FETCH, fetched(one, partition=1), fetched(batch(4), partition=1))
    settings = Settings(prefetch_bytes_max=2 * len(one), partition_prefetch_bytes_max=10 * len(one))
    found = Reading(cluster, [HERE, HERE._replace(partition=1)], settings)
    found.readers[1].stream = 1
    found.readers[0].buffered_bytes = 2 * len(one)
    found.fetching.start()
    await until(lambda: found.readers[1].fetch_offset == 5)
    found.fetching.stop()


def test_waiting_records_do_not_keep_the_whole_answer_in_memory() -> None:
    answer = bytes(1_000)
    few, most = (FetchedPartition("t", 0, 0, (), memoryview(answer)[:length]) for length in (499, 501))
    assert alone(few, 1_000).records == few.records
    assert len(cast(bytes, alone(few, 1_000).records.obj)) == 499
    assert alone(most, 1_000) is most


async def test_records_before_corrupt_ones_are_delivered() -> None:
    bad = batch(4)[:-1] + b"x"
    cluster = Cluster()
    cluster.answer(1, kafka.FETCH, fetched(batch(3) + bad), fetched(bad))
    async with reading(cluster, HERE, corrupt_retries_max=0) as found:
        await until(lambda: found.errors)
    assert found.offsets == [3]


async def test_a_partition_that_is_answered_twice_is_taken_once() -> None:
    cluster = Cluster()
    one = batch(3)
    part = struct.pack(">ihqqqii", 0, 0, 9, 9, 0, 0, -1) + INT32.pack(len(one)) + one
    twice = struct.pack(">ihi", 0, 0, 0) + items(INT32, [text("t") + items(INT32, [part, part])])
    cluster.answer(1, kafka.FETCH, twice, fetched(batch(4)))
    async with reading(cluster, HERE) as found:
        await until(lambda: len(found.offsets) == 2)
    assert found.offsets == [3, 4]
    assert found.errors == []


async def test_reading_many_large_partitions_yields_between_them() -> None:
    cluster = Cluster()
    large = b"".join(batch(3 + number) for number in range(1_500))
    parts = [struct.pack(">ihqqqii", number, 0, 9, 9, 0, 0, -1) + INT32.pack(len(large)) + large for number in range(3)]
    cluster.answer(1, kafka.FETCH, struct.pack(">ihi", 0, 0, 0) + items(INT32, [text("t") + items(INT32, parts)]))
    seen = [0]
    async with reading(cluster, *(HERE._replace(partition=number) for number in range(3))) as found:
        while seen[-1] < 3:
            await asyncio.sleep(0)
            seen.append(sum(reader.fetch_offset > 3 for reader in found.readers))
    assert set(seen) == {0, 1, 2, 3}
