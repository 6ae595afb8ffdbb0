"""A coordinator with very many transactional ids: other work runs between the parts of long work."""

from broker_runtime.metadata.areas.topics import NO_LEADER
from broker_runtime.transactions.ids.metadata import Transaction
from broker_runtime.transactions.ids.partition_set import NO_PARTITIONS, PartitionSet
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.states import TransactionState
from broker_runtime.transactions.seam import EndedTransaction, MarkersListener
from broker_runtime.transactions.timeouts import EXPIRED_MAX
from tests.support.coordination.iterations import Iterations
from tests.support.transactions.transaction_broker import TransactionBroker

IDS = 20_000
"""More transactions than a time slice of any length has room for."""
ORDERS = PartitionSet.of(("orders", 0))


async def _fill(node: TransactionBroker, state: TransactionState) -> None:
    now_ms = node.clock.wall_ms()
    partitions = NO_PARTITIONS if state is TransactionState.EMPTY else ORDERS
    records = [
        TransactionRecord(f"id-{number}", Transaction(number, 0, 60_000, state, partitions, now_ms, now_ms))
        for number in range(IDS)
    ]
    await node.transactions.hosted.by_partition[0].submit(lambda *_: (records, None))


async def test_the_markers_of_many_transactions_are_sent_over_several_iterations() -> None:
    async with TransactionBroker() as node:
        await node.lead_transactions()
        iterations, sent = Iterations(), list[int]()

        def send(ended: EndedTransaction, listener: MarkersListener) -> None:
            sent.append(iterations.count)

        node.markers.send = send  # type: ignore[method-assign]
        await _fill(node, TransactionState.PREPARE_COMMIT)
        await node.until(lambda: len(sent) == IDS)
        assert len(set(sent)) > 2, "after the commit of their records"
        sent.clear()
        await node.lead_transactions()
        await node.until(lambda: len(sent) == IDS)
        assert len(set(sent)) > 2, "after a load"
        iterations.stop()


async def test_the_state_of_an_ended_term_is_freed() -> None:
    """A term is part of reference cycles, so that its state would stay until a collection frees all of it at once."""
    async with TransactionBroker() as node:
        await node.lead_transactions()
        await _fill(node, TransactionState.PREPARE_COMMIT)
        term = node.transactions.hosted.by_partition[0]
        assert len(term.state.transactions) == len(term.state.prepared) == IDS
        node.elect_transactions(NO_LEADER)
        await node.until(lambda: not term.state.transactions and not term.state.prepared)


async def test_ids_expire_a_limited_number_at_a_time_until_none_is_left() -> None:
    properties = {
        "transaction.remove.expired.transaction.cleanup.interval.ms": "1",
        "transactional.id.expiration.ms": "60000",
    }
    async with TransactionBroker(properties) as node:
        await node.lead_transactions()
        await _fill(node, TransactionState.EMPTY)
        node.clock.advance(61)
        left, state = set[int](), node.transactions.hosted.by_partition[0].state

        def is_empty() -> bool:
            left.add(len(state.transactions))
            return not state.transactions

        await node.until(is_empty)
        assert {IDS - EXPIRED_MAX, IDS - 2 * EXPIRED_MAX} <= left
        assert node.transactions.tally.expirations == IDS
