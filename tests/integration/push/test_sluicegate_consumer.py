"""The consumer library with real broker processes.

It shares partitions, closes, dies, and follows topics and leaders.
"""

import asyncio
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Literal

import pytest
from confluent_kafka import Producer

from sluicegate_consumer import (
    Consumer,
    Listener,
    Record,
    RegistrationRefusedError,
    Settings,
    SyncConsumer,
    TopicPartition,
)
from tests.support.processes.broker_process import ROOT, BrokerProcess
from tests.support.processes.clients.wire_client import WireClient

PARTITIONS = 4
DEADLINE_S = 30.0
QUICK = Settings(session_timeout_s=3.0, callback_timeout_s=1.0)
"""Long enough that consumers do not suspect the coordinator on a loaded machine."""
_numbers = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    properties = {
        "group.min.session.timeout.ms": "100",
        "offsets.topic.num.partitions": "2",
        "sluicegate.group.push.offsets.commit.interval.ms": "100",
    }
    with BrokerProcess(properties=properties) as process:
        yield process


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    """A new topic."""
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
    """Return the committed offsets, as any client sees them."""
    with WireClient(("127.0.0.1", broker.port())) as client:
        fetched = client.ask("offset_fetch", 5, group_id=group, topics=None)
    return {
        (topic["name"], part["partition_index"]): part["committed_offset"]
        for topic in fetched["topics"]
        for part in topic["partitions"]
    }


async def read(consumer: Consumer, records: int) -> list[bytes | None]:
    """Read that many values, and acknowledge each."""
    found: list[bytes | None] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(found) < records:
            record = await anext(consumer)
            found.append(record.value)
            record.acknowledge()
    return found


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not true():  # noqa: ASYNC110 - of other processes
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_all_codecs_are_read_and_what_was_acknowledged_is_committed_at_the_end(
    broker: BrokerProcess, topic: str, codec: str
) -> None:
    values = [b"%d " % number * 50 for number in range(400)]
    await asyncio.to_thread(produce, broker, topic, values, **{"compression.type": codec})
    async with Consumer(broker.bootstrap, topic, topics=[topic], settings=QUICK) as consumer:
        assert sorted(await read(consumer, len(values))) == sorted(values)  # type: ignore[type-var]
    wanted = {(topic, number): 100 for number in range(PARTITIONS)}
    await until(lambda: committed(broker, topic) == wanted)


@pytest.mark.parametrize("close_by", ["commit", "pings"])
async def test_two_share_the_partitions_and_one_that_is_closed_leaves_its_offsets_to_the_other(
    broker: BrokerProcess, topic: str, close_by: Literal["commit", "pings"]
) -> None:
    async with Consumer(broker.bootstrap, topic, topics=[topic], settings=QUICK) as first:
        await asyncio.to_thread(produce, broker, topic, [b"a"] * 8)
        await read(first, 8)
        settings = replace(QUICK, close_by=close_by)
        async with Consumer(broker.bootstrap, topic, topics=[topic], settings=settings) as second:
            await until(lambda: len(first.assignment) == len(second.assignment) == 2)
            assert not first.assignment & second.assignment
            await asyncio.to_thread(produce, broker, topic, [b"b"] * 8)
            assert await read(first, 4) + await read(second, 4) == [b"b"] * 8
        await until(lambda: len(first.assignment) == PARTITIONS)
        await asyncio.to_thread(produce, broker, topic, [b"c"] * 8)
        assert await read(first, 8) == [b"c"] * 8, "nothing of b is read again"
    await until(lambda: set(committed(broker, topic).values()) == {6})


def test_a_sync_consumer_reads_acknowledges_by_itself_and_ends(broker: BrokerProcess, topic: str) -> None:
    produce(broker, topic, [b"%d" % number for number in range(100)])
    settings = replace(QUICK, acknowledge="automatic")
    with SyncConsumer(lambda: Consumer(broker.bootstrap, topic, topics=[topic], settings=settings)) as consumer:
        values = {record.value for record, _ in zip(consumer, range(99), strict=False)}
    assert len(values) == 99
    asyncio.run(until(lambda: sum(committed(broker, topic).values()) == 99))


async def test_partitions_of_a_killed_consumer_are_read_by_another(broker: BrokerProcess, topic: str) -> None:
    program = (
        "import asyncio, sys; from sluicegate_consumer import *\n"
        "async def main():\n"
        "    settings = Settings(session_timeout_s=3.0, callback_timeout_s=1.0)\n"
        "    async with Consumer(sys.argv[1], sys.argv[2], topics=[sys.argv[2]], settings=settings) as consumer:\n"
        "        async for record in consumer: print(record.value, flush=True)\n"
        "asyncio.run(main())"
    )
    await asyncio.to_thread(produce, broker, topic, [b"a"] * 8)
    arguments = (sys.executable, "-c", program, broker.bootstrap, topic)
    doomed = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    try:
        assert doomed.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            assert await doomed.stdout.readline() == b"b'a'\n"
        async with Consumer(broker.bootstrap, topic, topics=[topic], settings=QUICK) as consumer:
            await until(lambda: len(consumer.assignment) == 2)
            doomed.kill()
            assert await read(consumer, 8) == [b"a"] * 8, "it acknowledged nothing"
            assert len(consumer.assignment) == PARTITIONS
    finally:
        if doomed.returncode is None:
            doomed.kill()
        await doomed.wait()


async def test_a_pattern_reads_topics_as_they_come(broker: BrokerProcess, topic: str) -> None:
    async with Consumer(broker.bootstrap, topic, pattern=f"{topic}(-more)?", settings=QUICK) as consumer:
        await until(lambda: len(consumer.assignment) == PARTITIONS)
        await asyncio.to_thread(create, broker, f"{topic}-more")
        await until(lambda: len(consumer.assignment) == 2 * PARTITIONS)
        await asyncio.to_thread(produce, broker, f"{topic}-more", [b"m"] * 8)
        assert await read(consumer, 8) == [b"m"] * 8


class _Told(Listener):
    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self.last: Record | None = None

    async def assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("assigned", len(partitions)))

    async def revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("revoked", len(partitions)))
        last, self.last = self.last, None
        if last is not None:
            assert last.acknowledge()


async def test_what_is_acknowledged_while_partitions_are_revoked_is_not_read_again(
    broker: BrokerProcess, topic: str
) -> None:
    listener = _Told()
    await asyncio.to_thread(produce, broker, topic, [b"a"])
    async with Consumer(broker.bootstrap, topic, topics=[topic], listener=listener, settings=QUICK) as first:
        listener.last = record = await anext(first)
        async with Consumer(broker.bootstrap, topic, topics=[topic], settings=QUICK) as second:
            await until(lambda: len(first.assignment) == len(second.assignment) == 2)
            await until(lambda: len(listener.told) >= 3)
            assert listener.told[:3] == [("assigned", 4), ("revoked", 4), ("assigned", 2)]
            assert not record.acknowledge(), "it is not this consumer's any more"
            await until(lambda: committed(broker, topic).get((topic, 0)) == 1)
    # On a busy machine the group may be rebalanced more often.
    events = [event for event, _ in listener.told]
    assert events == ["assigned", "revoked"] * (len(events) // 2)


async def test_an_application_may_commit_by_itself(broker: BrokerProcess, topic: str) -> None:
    await asyncio.to_thread(produce, broker, topic, [b"a"] * 8)
    settings = replace(QUICK, auto_commit=False)
    async with Consumer(broker.bootstrap, topic, topics=[topic], settings=settings) as consumer:
        await read(consumer, 8)
        assert committed(broker, topic) == {}
        await consumer.commit()
        assert set(committed(broker, topic).values()) == {2}


async def test_streams_have_partitions_of_their_own(broker: BrokerProcess, topic: str) -> None:
    await asyncio.to_thread(produce, broker, topic, [b"a"] * 8)
    async with Consumer(broker.bootstrap, topic, topics={topic: 2}, settings=QUICK) as consumer:
        async with asyncio.timeout(DEADLINE_S):
            found = [{(await anext(stream)).partition for _ in range(4)} for stream in consumer.streams]
    assert found == [{0, 1}, {2, 3}]


def commit_as_a_tool(client: WireClient, topic: str, offset: int) -> None:
    """Commit for partition 0, and the group with the name of the topic."""
    part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": None}
    group = {"group_id": topic, "generation_id_or_member_epoch": -1, "member_id": ""}
    client.ask("offset_commit", 2, **group, retention_time=-1, topics=[{"name": topic, "partitions": [part]}])


async def test_an_offset_before_the_log_is_reset(broker: BrokerProcess, topic: str) -> None:
    await asyncio.to_thread(produce, broker, topic, [b"a"] * 8)
    with WireClient(("127.0.0.1", broker.port())) as client:
        commit_as_a_tool(client, topic, 0)
        deleted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
        client.ask("delete_records", 1, topics=deleted, timeout=10_000)
    async with Consumer(broker.bootstrap, topic, topics=[topic], settings=QUICK) as consumer:
        assert await read(consumer, 7) == [b"a"] * 7


async def test_a_group_with_an_offset_beyond_the_log_continues_at_its_end(broker: BrokerProcess, topic: str) -> None:
    await asyncio.to_thread(produce, broker, topic, [b"a"] * 8)
    with WireClient(("127.0.0.1", broker.port())) as client:
        commit_as_a_tool(client, topic, 999)
    async with Consumer(broker.bootstrap, topic, topics=[topic], settings=QUICK) as consumer:
        assert await read(consumer, 6) == [b"a"] * 6
        await asyncio.to_thread(produce, broker, topic, [b"b"] * 8)
        assert await read(consumer, 8) == [b"b"] * 8
        await until(lambda: committed(broker, topic) == {(topic, number): 4 for number in range(PARTITIONS)})


async def test_an_invalid_pattern_raises_an_error_in_the_iteration(broker: BrokerProcess, topic: str) -> None:
    async with Consumer(broker.bootstrap, topic, pattern="(", settings=QUICK) as consumer:
        with pytest.raises(RegistrationRefusedError, match=r"INVALID_REGULAR_EXPRESSION.*RE2"):
            await anext(consumer)


async def test_a_batch_that_is_larger_than_what_is_asked_for_is_read(broker: BrokerProcess, topic: str) -> None:
    await asyncio.to_thread(produce, broker, topic, [b"%d" % number * 500_000 for number in range(8)])
    small = replace(QUICK, partition_fetch_bytes_max=1_000, fetch_bytes_max=2_000, isolation="read_committed")
    async with Consumer(broker.bootstrap, topic, topics=[topic], settings=small) as consumer:
        assert {len(value or b"") for value in await read(consumer, 8)} == {500_000}


async def test_the_end_of_a_topic_is_where_the_latest_begin(broker: BrokerProcess, topic: str) -> None:
    await asyncio.to_thread(produce, broker, topic, [b"before"] * 8)
    settings = replace(QUICK, auto_offset_reset="latest")
    async with Consumer(broker.bootstrap, topic, topics=[topic], settings=settings) as consumer:
        await until(lambda: committed(broker, topic) == {(topic, number): 2 for number in range(PARTITIONS)})
        await asyncio.to_thread(produce, broker, topic, [b"after"] * 8)
        assert await read(consumer, 8) == [b"after"] * 8
