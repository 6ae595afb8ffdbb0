"""The consumer library over real broker processes: shares, closes, dies, follows topics and leaders."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import count

import pytest
from confluent_kafka import Producer

from sluicegate_consumer import Consumer, Settings, SyncConsumer
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

PARTITIONS = 4
DEADLINE_S = 30.0
QUICK = Settings(session_timeout_s=0.9, callback_timeout_s=0.5)
_numbers = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    properties = {"group.min.session.timeout.ms": "100", "offsets.topic.num.partitions": "2"}
    with BrokerProcess(properties=properties) as process:
        yield process


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    """A new one."""
    name = f"orders-{next(_numbers)}"
    create(broker, name)
    return name


def create(broker: BrokerProcess, name: str, replicas: int = 1) -> None:
    asked = {
        "name": name,
        "num_partitions": PARTITIONS,
        "replication_factor": replicas,
        "assignments": [],
        "configs": [],
    }
    with WireClient(("127.0.0.1", broker.port())) as client:
        client.ask("create_topics", 7, topics=[asked], timeout=10_000)


def produce(broker: BrokerProcess, topic: str, values: list[bytes], **properties: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5} | properties)
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(DEADLINE_S) == 0


def committed(broker: BrokerProcess, group: str) -> Mapping[tuple[str, int], int]:
    """As any client sees it."""
    with WireClient(("127.0.0.1", broker.port())) as client:
        fetched = client.ask("offset_fetch", 5, group_id=group, topics=None)
    return {
        (topic["name"], part["partition_index"]): part["committed_offset"]
        for topic in fetched["topics"]
        for part in topic["partitions"]
    }


async def read(consumer: Consumer, records: int) -> list[bytes | None]:
    """So many values, each acknowledged."""
    found = []
    async with asyncio.timeout(DEADLINE_S):
        while len(found) < records:
            record = await anext(consumer)
            found.append(record.value)
            record.acknowledge()
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_all_codecs_are_read_and_what_was_acknowledged_is_committed_at_the_end(
    broker: BrokerProcess, topic: str, codec: str
) -> None:
    values = [b"%d " % number * 50 for number in range(400)]
    await asyncio.to_thread(produce, broker, topic, values, **{"compression.type": codec})
    async with Consumer(broker.bootstrap, topic, topics=[topic], settings=QUICK) as consumer:
        assert sorted(await read(consumer, len(values))) == sorted(values)  # type: ignore[type-var]
    assert committed(broker, topic) == {(topic, number): 100 for number in range(PARTITIONS)}


async def test_two_share_the_partitions_and_one_that_is_closed_leaves_its_offsets_to_the_other(
    broker: BrokerProcess, topic: str
) -> None:
    async with Consumer(broker.bootstrap, topic, topics=[topic], settings=QUICK) as first:
        await asyncio.to_thread(produce, broker, topic, [b"a"] * 8)
        await read(first, 8)
        async with Consumer(broker.bootstrap, topic, topics=[topic], settings=QUICK) as second:
            await until(lambda: len(first.assignment) == len(second.assignment) == 2)
            assert not first.assignment & second.assignment
            await asyncio.to_thread(produce, broker, topic, [b"b"] * 8)
            assert await read(first, 4) + await read(second, 4) == [b"b"] * 8
        await until(lambda: len(first.assignment) == PARTITIONS)
        await asyncio.to_thread(produce, broker, topic, [b"c"] * 8)
        assert await read(first, 8) == [b"c"] * 8, "nothing of b is read again"
    assert set(committed(broker, topic).values()) == {6}


def test_a_sync_consumer_reads_acknowledges_by_itself_and_ends(broker: BrokerProcess, topic: str) -> None:
    produce(broker, topic, [b"%d" % number for number in range(100)])
    settings = Settings(session_timeout_s=0.9, callback_timeout_s=0.5, acknowledge="automatic")
    with SyncConsumer(lambda: Consumer(broker.bootstrap, topic, topics=[topic], settings=settings)) as consumer:
        values = {record.value for record, _ in zip(consumer, range(99), strict=False)}
    assert len(values) == 99
    assert sum(committed(broker, topic).values()) == 99


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not true():  # noqa: ASYNC110 - of other processes
            await asyncio.sleep(0.01)
