"""The durable state of one transactional id. Pure data."""

from collections.abc import Callable
from typing import Any, NamedTuple

from broker_runtime.transactions.ids.partition_set import NO_PARTITIONS, PartitionSet
from broker_runtime.transactions.ids.states import (
    COMPLETION,
    TRANSACTIONS_V2,
    TransactionState,
    is_legal,
)
from broker_runtime.transactions.seam import EndedTransaction
from kafka_bytes.control import Marker

NONE = -1
"""The value of an id, an epoch or a time that does not exist, as in Kafka's records."""
EPOCH_MAX = 32_766
"""Highest epoch that a producer gets. Then its transactional id gets another producer id."""
EPOCH_FENCING = 32_767
"""The epoch that only markers have: it fences a producer whose epoch is `EPOCH_MAX`."""

TakeProducerId = Callable[[], int]
"""A function that returns a producer id that is unique in the cluster.

It raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) if no id is at hand.
"""


class Transaction(NamedTuple):
    """The producer of a transactional id and its current or last transaction, as its last record says.

    `last_producer_epoch` is not in the record, as in Apache Kafka: it is -1 after the log was loaded.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    """Time after which the coordinator aborts an ongoing transaction."""
    state: TransactionState
    partitions: PartitionSet
    """The partitions of the transaction that have no marker yet. Empty unless it is ongoing or prepared."""
    last_update_ms: int
    started_ms: int = NONE
    """Start of the current or last transaction; -1 after the producer was initialized."""
    previous_producer_id: int = NONE
    """The producer id before the last change of producer ids."""
    next_producer_id: int = NONE
    """The producer id that replaces an exhausted one when the prepared transaction is complete."""
    client_version: int = 0
    """The transaction version of the request that added the partitions or ended the transaction."""
    last_producer_epoch: int = NONE
    """The epoch before the last change by a request with an epoch: a retry of that request has it."""

    @property
    def is_exhausted(self) -> bool:
        """Return whether the producer id has no further epoch for a client."""
        return self.producer_epoch >= EPOCH_MAX

    @property
    def has_timed_out_at_ms(self) -> int:
        """Return the time in milliseconds after which an ongoing transaction is too old."""
        return self.started_ms + self.timeout_ms


def moved(before: Transaction, after: TransactionState, now_ms: int, **changes: Any) -> Transaction:
    """Return the transaction in the state `after`, with these changed fields.

    Raises ValueError if the state may not follow.
    """
    version = changes.get("client_version", before.client_version)
    if not is_legal(before.state, after, version=version):
        raise ValueError(f"{after.shown} may not follow {before.state.shown} in transaction version {version}")
    return before._replace(state=after, last_update_ms=now_ms, **changes)


def prepared(
    before: Transaction, after: TransactionState, now_ms: int, *, version: int, take_producer_id: TakeProducerId
) -> Transaction:
    """Return the Prepare state of a transaction that ends by a rule of the transaction version `version`.

    Since version 2 the epoch is raised, so that the markers fence all writes of the ended transaction. An exhausted
    producer id is replaced when the transaction is complete. Raises KafkaError if no producer id is at hand then.
    """
    changes: dict[str, Any] = {"client_version": version}
    if before.state is not TransactionState.ONGOING:
        changes["started_ms"] = now_ms
    if version >= TRANSACTIONS_V2:
        if before.is_exhausted:
            changes["next_producer_id"] = take_producer_id()
        changes["producer_epoch"] = min(before.producer_epoch + 1, EPOCH_FENCING)
        changes["last_producer_epoch"] = before.producer_epoch
    return moved(before, after, now_ms, **changes)


def aborted_by_coordinator(
    before: Transaction, now_ms: int, *, version: int, take_producer_id: TakeProducerId
) -> Transaction:
    """Return the PrepareAbort state of an ongoing transaction whose producer the coordinator fences.

    `version` is the transaction version of the cluster. Before version 2 the producer cannot continue. Since version 2
    it can: its own abort with the old epoch is taken for a retry. Raises KafkaError if no producer id is at hand for an
    exhausted one.
    """
    after = TransactionState.PREPARE_ABORT
    if version >= TRANSACTIONS_V2:
        return prepared(before, after, now_ms, version=version, take_producer_id=take_producer_id)
    epoch = min(before.producer_epoch + 1, EPOCH_FENCING)
    return moved(before, after, now_ms, client_version=version, producer_epoch=epoch, last_producer_epoch=NONE)


def completed(before: Transaction, now_ms: int) -> Transaction:
    """Return the Complete state of a prepared transaction whose markers are all written."""
    changes: dict[str, Any] = {"partitions": NO_PARTITIONS}
    if before.next_producer_id != NONE:
        changes["previous_producer_id"] = before.producer_id
        changes["producer_id"], changes["producer_epoch"] = before.next_producer_id, 0
        changes["next_producer_id"] = NONE
    return moved(before, COMPLETION[before.state], now_ms, **changes)


def ended(
    transactional_id: str, transaction: Transaction, coordinator_partition: int, coordinator_epoch: int
) -> EndedTransaction:
    """Return the markers to write for a prepared transaction."""
    marker = Marker(
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state is TransactionState.PREPARE_COMMIT,
        coordinator_epoch,
        transaction.client_version,
    )
    return EndedTransaction(transactional_id, marker, transaction.partitions, coordinator_partition)
