"""Decides which partitions belong to a transaction: AddPartitionsToTxn, AddOffsetsToTxn, and verification. Pure."""

from collections.abc import Collection, Mapping

from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import Steps, in_steps_if, pages
from broker_runtime.transactions.decisions.known import concurrent, fenced, of_producer
from broker_runtime.transactions.environment import TransactionEnvironment
from broker_runtime.transactions.ids.metadata import Transaction, moved
from broker_runtime.transactions.ids.partition_set import LONG, partition_set, union
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.state import TransactionsState
from broker_runtime.transactions.ids.states import PREPARED, TransactionState
from broker_runtime.transactions.seam import TopicPartition

_OF_A_STEP = 128
Added = tuple[list[TransactionRecord], None]


def _of_epoch(found: Transaction | None, producer_id: int, producer_epoch: int) -> Transaction:
    """Return the transaction of the producer, if partitions may be added to it. Raises KafkaError."""
    before = of_producer(found, producer_id)
    if before.producer_epoch != producer_epoch:
        raise fenced()
    if before.state in PREPARED:
        raise concurrent()
    return before


def add_partitions(
    state: TransactionsState,
    environment: TransactionEnvironment,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Collection[TopicPartition],
    version: int,
) -> Added | Steps[Added]:
    """Add the partitions to the producer's transaction, which begins with the first ones.

    `version` is the transaction version of the request. Raises KafkaError.
    """
    before = _of_epoch(state.transactions.get(transactional_id), producer_id, producer_epoch)
    steps = _added(before, environment, transactional_id, partitions, version)
    return in_steps_if(len(before.partitions) + len(partitions) > LONG, steps)


def _added(
    before: Transaction,
    environment: TransactionEnvironment,
    transactional_id: str,
    added: Collection[TopicPartition],
    version: int,
) -> Steps[Added]:
    partitions = yield from union(before.partitions, (yield from partition_set(added)))
    is_ongoing = before.state is TransactionState.ONGOING
    if is_ongoing and partitions is before.partitions:
        return [], None
    now_ms = environment.now_ms()
    after = moved(
        before,
        TransactionState.ONGOING,
        now_ms,
        partitions=partitions,
        started_ms=before.started_ms if is_ongoing else now_ms,
        client_version=version,
    )
    return [TransactionRecord(transactional_id, after)], None


def verified(
    found: Transaction | None, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
) -> Steps[Mapping[TopicPartition, ErrorCode]]:
    """Return for each partition whether it belongs to the producer's transaction (KIP-890). Raises KafkaError.

    `found` is the durable transaction of the transactional id. A partition that does not belong to it has
    TRANSACTION_ABORTABLE.
    """
    members = _of_epoch(found, producer_id, producer_epoch).partitions
    codes: dict[TopicPartition, ErrorCode] = {}
    for some in pages(partitions, _OF_A_STEP):
        codes.update((each, ErrorCode.NONE if each in members else ErrorCode.TRANSACTION_ABORTABLE) for each in some)
        yield
    return codes
