"""Transactions as aiokafka's producer and consumer see them: positions, ends of partitions, producer ids, lost records.

aiokafka publishes no tests with its source distribution. These tests check what its own tests of transactions check,
and what test_transactional_clients.py does not.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import OutOfOrderSequenceNumber
from aiokafka.structs import TopicPartition

from tests.support.processes.broker_process import BrokerProcess
from tests.support.transactions.clients import COMMITTED, UNCOMMITTED

pytestmark = pytest.mark.full

PROPERTIES = {
    "num.partitions": "2",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
LIMIT_S = 120.0
POLL_MS = 200


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with BrokerProcess(properties=PROPERTIES) as running:
        yield running.bootstrap


@asynccontextmanager
async def clients_of(bootstrap: str) -> AsyncIterator["Clients"]:
    """Starts clients, and stops them at the end. A test that takes longer than the limit fails."""
    async with asyncio.timeout(LIMIT_S), AsyncExitStack() as stack:
        yield Clients(bootstrap, stack)


class Clients:
    """Starts clients of one broker, which a stack stops."""

    def __init__(self, bootstrap: str, stack: AsyncExitStack) -> None:
        self._bootstrap = bootstrap
        self._stack = stack

    async def producer(self, transactional_id: str | None = None) -> AIOKafkaProducer:
        started = AIOKafkaProducer(bootstrap_servers=self._bootstrap, transactional_id=transactional_id)
        return await self._stack.enter_async_context(started)

    async def consumer(self, topic: str, isolation: str, **more: Any) -> AIOKafkaConsumer:
        settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "isolation_level": isolation}
        started = AIOKafkaConsumer(topic, bootstrap_servers=self._bootstrap, **settings, **more)
        return await self._stack.enter_async_context(started)


async def read_to(consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int]) -> list[bytes]:
    """The values of all records until the consumer's positions are these."""
    found: list[bytes] = []
    while any([await consumer.position(at) != end for at, end in ends.items()]):
        for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
            found += [record.value for record in records]
    return found


@pytest.mark.parametrize("commits", [True, False])
async def test_a_reader_of_committed_records_waits_for_the_end_of_a_transaction(bootstrap: str, commits: bool) -> None:
    topic = f"waits-{commits}"
    partition = TopicPartition(topic, 0)
    async with clients_of(bootstrap) as clients:
        transactional, plain = await clients.producer(topic), await clients.producer()
        await transactional.begin_transaction()
        await transactional.send_and_wait(topic, b"in a transaction", partition=0)
        await plain.send_and_wait(topic, b"in none", partition=0)
        consumer = await clients.consumer(topic, COMMITTED)
        while consumer.highwater(partition) != 2:
            assert await consumer.getmany(timeout_ms=POLL_MS) == {}
        assert consumer.last_stable_offset(partition) == 0
        await (transactional.commit_transaction() if commits else transactional.abort_transaction())
        expected = [b"in a transaction", b"in none"] if commits else [b"in none"]
        # The marker is the third record.
        assert await read_to(consumer, {partition: 3}) == expected
        assert (consumer.last_stable_offset(partition), consumer.highwater(partition)) == (3, 3)


@pytest.mark.parametrize("isolation", [COMMITTED, UNCOMMITTED])
async def test_a_consumer_whose_next_record_is_a_marker_passes_it(bootstrap: str, isolation: str) -> None:
    topic = f"marker-{isolation}"
    partition = TopicPartition(topic, 0)
    async with clients_of(bootstrap) as clients:
        producer = await clients.producer(topic)
        async with producer.transaction():
            await producer.send_and_wait(topic, b"first", partition=0)
        consumer = await clients.consumer(topic, isolation, fetch_max_bytes=10)
        consumer.seek(partition, 1)
        assert await read_to(consumer, {partition: 2}) == []
        async with producer.transaction():
            await producer.send_and_wait(topic, b"second", partition=0)
        assert (await consumer.getone()).value == b"second"


async def test_aborted_transactions_between_committed_ones_are_never_read(bootstrap: str) -> None:
    topic = "between"
    async with clients_of(bootstrap) as clients:
        producer = await clients.producer(topic)
        for number in range(12):
            await producer.begin_transaction()
            await producer.send(topic, b"%d" % number, partition=0)
            await (producer.abort_transaction() if number % 3 else producer.commit_transaction())
        committed = await clients.consumer(topic, COMMITTED)
        # Each transaction has a record and a marker.
        assert await read_to(committed, {TopicPartition(topic, 0): 24}) == [b"0", b"3", b"6", b"9"]


async def test_a_transactional_id_keeps_its_producer_id_with_a_higher_epoch(bootstrap: str) -> None:
    async with clients_of(bootstrap) as clients:
        first, second = await clients.producer("kept"), await clients.producer("kept")
        before, after = first._txn_manager, second._txn_manager
        assert after.producer_id == before.producer_id
        assert after.producer_epoch == before.producer_epoch + 1


async def test_transactions_without_records_commit_and_abort(bootstrap: str) -> None:
    async with clients_of(bootstrap) as clients:
        producer = await clients.producer("empty")
        for _ in range(2):
            await producer.begin_transaction()
            await producer.commit_transaction()
            await producer.begin_transaction()
            await producer.abort_transaction()


async def test_two_batches_of_a_partition_are_written_before_the_commit(bootstrap: str) -> None:
    topic = "batches"
    async with clients_of(bootstrap) as clients:
        producer = await clients.producer(topic)
        await producer.begin_transaction()
        sent = []
        for value in (b"1", b"2"):
            batch = producer.create_batch()
            batch.append(timestamp=None, key=None, value=value)
            batch.close()
            sent.append(await producer.send_batch(batch, topic, partition=0))
        await producer.commit_transaction()
        assert [each.result().offset for each in sent] == [0, 1]
        consumer = await clients.consumer(topic, COMMITTED)
        assert [(await consumer.getone()).value for _ in range(2)] == [b"1", b"2"]


async def test_a_lost_record_ends_the_transaction_with_an_error_and_its_successor_continues(bootstrap: str) -> None:
    topic = "lost"
    async with clients_of(bootstrap) as clients:
        producer = await clients.producer(topic)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"before the gap", partition=0)
        # The broker never gets the record of this sequence number.
        producer._txn_manager.increment_sequence_number(TopicPartition(topic, 0), 1)
        with pytest.raises(OutOfOrderSequenceNumber):
            await producer.send_and_wait(topic, b"after the gap", partition=0)
        await producer.abort_transaction()
        successor = await clients.producer(topic)
        await successor.begin_transaction()
        await successor.send_and_wait(topic, b"committed", partition=0)
        await successor.commit_transaction()
        committed = await clients.consumer(topic, COMMITTED)
        assert (await committed.getone()).value == b"committed"
        everything = await clients.consumer(topic, UNCOMMITTED)
        assert [(await everything.getone()).value for _ in range(2)] == [b"before the gap", b"committed"]


async def copy(
    consumer: AIOKafkaConsumer,
    producer: AIOKafkaProducer,
    ends: Mapping[TopicPartition, int],
    target: str,
    group: str,
    *,
    aborts: bool,
) -> None:
    """Copy the records up to the ends in transactions, which commit the offsets of the group or abort."""
    while any([await consumer.position(at) != end for at, end in ends.items()]):
        batch = await consumer.getmany(timeout_ms=POLL_MS, max_records=20)
        if not batch:
            continue
        await producer.begin_transaction()
        for at, records in batch.items():
            for record in records:
                await producer.send(target, record.value, partition=at.partition)
        read = {at: records[-1].offset + 1 for at, records in batch.items()}
        await producer.send_offsets_to_transaction(read, group)
        await (producer.abort_transaction() if aborts else producer.commit_transaction())


async def test_offsets_of_an_aborted_transaction_are_read_again_and_those_of_a_committed_one_stay(
    bootstrap: str,
) -> None:
    source, target, group = "copied", "copies", "copiers"
    partitions = [TopicPartition(source, number) for number in range(2)]
    async with clients_of(bootstrap) as clients:
        plain, producer = await clients.producer(), await clients.producer(group)
        for partition in partitions:
            for number in range(50):
                await plain.send(source, b"%d" % number, partition=partition.partition)
        await plain.flush()
        consumer = await clients.consumer(source, COMMITTED, group_id=group)
        await consumer.commit(dict.fromkeys(partitions, 0))

        for aborts, offset in ((True, 0), (False, 50)):
            await copy(consumer, producer, dict.fromkeys(partitions, 50), target, group, aborts=aborts)
            # The markers of the last transaction may still be on their way.
            while [await consumer.committed(each) for each in partitions] != [offset, offset]:
                assert not aborts, "an aborted transaction has committed offsets"
            # aiokafka's seek_to_committed does nothing for offset 0.
            for each in partitions:
                consumer.seek(each, offset)
        copies = await clients.consumer(target, COMMITTED)
        for number in range(2):
            at = TopicPartition(target, number)
            copies.pause(*(copies.assignment() - {at}))
            copies.resume(at)
            found: list[bytes] = []
            while len(found) < 50:
                found += await read_to(copies, await copies.end_offsets([at]))
            assert found == [b"%d" % n for n in range(50)]
