"""A broker coordinates the transactional ids of the partitions that it leads, and of no others."""

import asyncio

import pytest

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.topics import NO_LEADER
from broker_runtime.transactions.decisions.ending import EndRequest
from broker_runtime.transactions.decisions.producers import InitializedProducer
from broker_runtime.transactions.ids.states import TransactionState
from broker_runtime.transactions.service import TransactionCoordinatorService
from kafka_bytes.control import Marker
from tests.support.transactions.transaction_broker import TransactionBroker

ID, ORDERS = "payments", ("orders", 0)
PATIENT = {"add.partitions.to.txn.retry.backoff.max.ms": "60000"}
SOON = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1"}


async def begin(service: TransactionCoordinatorService, *partitions: tuple[str, int]) -> InitializedProducer:
    producer = await service.init_producer(ID, 60_000)
    if partitions:
        await service.add_partitions(ID, producer.producer_id, producer.producer_epoch, partitions)
    return producer


async def end(service: TransactionCoordinatorService, producer: InitializedProducer, version: int = 0) -> None:
    await service.end_transaction(EndRequest(ID, producer.producer_id, producer.producer_epoch, True, version))


async def test_a_transaction_is_complete_when_all_its_partitions_have_their_markers() -> None:
    async with TransactionBroker() as node:
        await node.lead_transactions()
        producer = await begin(node.transactions, ORDERS, ("orders", 1))
        assert not node.markers.sent
        await end(node.transactions, producer)
        await node.until(lambda: bool(node.markers.sent))
        [(sent, listener)] = node.markers.sent
        assert sent.marker == Marker(4_000, 0, is_commit=True, coordinator_epoch=1)
        assert (sent.transactional_id, sent.coordinator_partition) == (ID, 0)
        listener.partition_done(sent, ORDERS)
        assert (await node.transactions.describe(ID)).state is TransactionState.PREPARE_COMMIT
        listener.partition_done(sent, ("orders", 1))
        await node.until(lambda: len(node.states()) == 4)
        assert node.states() == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
        assert node.transactions.tally.commits == 1


async def test_markers_of_version_2_have_the_next_epoch() -> None:
    async with TransactionBroker() as node:
        await node.lead_transactions()
        await end(node.transactions, await begin(node.transactions, ORDERS), version=2)
        await node.until(lambda: bool(node.markers.sent))
        assert node.markers.sent[0][0].marker == Marker(4_000, 1, True, 1, 2)


async def test_the_next_coordinator_sends_the_markers_again_with_its_own_epoch() -> None:
    async with TransactionBroker() as node:
        await node.lead_transactions()
        await end(node.transactions, await begin(node.transactions, ORDERS))
        await node.until(lambda: bool(node.markers.sent))
        [(late, listener)] = node.markers.sent
        await node.lead_transactions()
        assert node.markers.dropped == [0]
        listener.partition_done(late, ORDERS)
        (sent, _) = node.markers.sent[1]
        assert sent.marker == late.marker._replace(coordinator_epoch=2)
        node.markers.write_all()
        await node.until(lambda: node.states()[-1] == "CompleteCommit")
        assert node.states() == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]


async def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    async with TransactionBroker(SOON) as node:
        await node.lead_transactions()
        await begin(node.transactions, ORDERS)
        node.clock.advance(61)
        await node.until(lambda: bool(node.markers.sent))
        assert node.markers.sent[0][0].marker == Marker(4_000, 1, False, 1, 2)
        assert node.transactions.tally.timeouts == 1
        node.markers.write_all()
        await node.until(lambda: node.states()[-1] == "CompleteAbort")


async def test_an_id_without_use_is_removed() -> None:
    properties = {
        "transaction.remove.expired.transaction.cleanup.interval.ms": "1",
        "transactional.id.expiration.ms": "60000",
    }
    async with TransactionBroker(properties) as node:
        await node.lead_transactions()
        await begin(node.transactions)
        node.clock.advance(61)
        await node.until(lambda: node.states()[-1] == "")
        with pytest.raises(KafkaError) as refused:
            await node.transactions.describe(ID)
        assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert (await begin(node.transactions)).producer_id == 4_001


async def test_a_load_gives_the_same_state_except_the_last_epoch() -> None:
    async with TransactionBroker() as node:
        await node.lead_transactions()
        producer = await begin(node.transactions, ORDERS)
        before = await node.transactions.describe(ID)
        await node.lead_transactions()
        assert await node.transactions.describe(ID) == before
        await node.transactions.add_partitions(ID, producer.producer_id, 0, [("orders", 2)])


async def code_of(service: TransactionCoordinatorService, transactional_id: str = ID) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        await service.init_producer(transactional_id, 60_000)
    return refused.value.code


async def test_refusals() -> None:
    async with TransactionBroker() as node:
        assert await code_of(node.transactions) is ErrorCode.NOT_COORDINATOR
        await node.lead_transactions()
        assert await code_of(node.transactions, "") is ErrorCode.INVALID_REQUEST
        assert await code_of(node.transactions, "x" * 40_000) is ErrorCode.INVALID_REQUEST
        with pytest.raises(KafkaError) as refused:
            await node.transactions.init_producer(ID, 1_000_000)
        assert refused.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        node.ids.left = 0
        assert await code_of(node.transactions) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        node.elect_transactions(NO_LEADER)
        assert await code_of(node.transactions) is ErrorCode.NOT_COORDINATOR


async def test_an_id_needs_no_new_producer_id_to_continue() -> None:
    async with TransactionBroker() as node:
        await node.lead_transactions()
        await begin(node.transactions)
        node.ids.left = 0
        assert (await begin(node.transactions)).producer_epoch == 1


@pytest.mark.parametrize(("version", "written"), [(0, 0), (1, 1), (2, 1)])
async def test_the_transaction_version_of_the_cluster_decides_the_version_of_records(
    version: int, written: int
) -> None:
    async with TransactionBroker() as node:
        node.transaction_version = version
        await node.lead_transactions()
        await begin(node.transactions)
        [record] = node.raw()
        assert record[:2] == bytes([0, written])


async def until_waiting(node: TransactionBroker, count: int = 1) -> None:
    term = node.transactions.hosted.by_partition[0]
    await node.until(lambda: len(term.shard.environment.postponed) == count)


async def test_partitions_of_the_next_transaction_are_added_when_the_last_one_is_complete() -> None:
    async with TransactionBroker(PATIENT) as node:
        await node.lead_transactions()
        service, producer = node.transactions, await begin(node.transactions, ORDERS)
        await end(service, producer)
        await node.until(lambda: bool(node.markers.sent))
        adding = asyncio.ensure_future(service.add_partitions(ID, producer.producer_id, 0, [ORDERS]))
        await until_waiting(node)
        node.markers.write_all()
        await adding
        assert node.states() == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit", "Ongoing"]


async def test_a_new_producer_waits_until_the_last_transaction_is_complete() -> None:
    async with TransactionBroker(PATIENT) as node:
        await node.lead_transactions()
        await end(node.transactions, await begin(node.transactions, ORDERS))
        await node.until(lambda: bool(node.markers.sent))
        beginning = asyncio.ensure_future(begin(node.transactions))
        await until_waiting(node)
        node.markers.write_all()
        assert (await beginning).producer_epoch == 1


async def test_a_transaction_whose_markers_take_long_refuses_the_next_one_at_once() -> None:
    async with TransactionBroker(PATIENT) as node:
        await node.lead_transactions()
        service, producer = node.transactions, await begin(node.transactions, ORDERS)
        await end(service, producer)
        node.clock.advance(61)
        adding = asyncio.ensure_future(service.add_partitions(ID, producer.producer_id, 0, [ORDERS]))
        await node.until(adding.done)
        error = adding.exception()
        assert isinstance(error, KafkaError)
        assert error.code is ErrorCode.CONCURRENT_TRANSACTIONS
