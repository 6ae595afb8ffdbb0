"""Decides EndTxn, and the completion of a transaction whose markers are written. Pure.

Since transaction version 2 (KIP-890) each end raises the epoch. A request with the epoch before is a retry of the
request that ended the transaction.
"""

from collections.abc import Mapping
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.transactions.decisions.known import concurrent, fenced, of_producer
from broker_runtime.transactions.environment import TransactionEnvironment
from broker_runtime.transactions.ids.metadata import EPOCH_MAX, NONE, Transaction, completed, prepared
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.state import TransactionsState
from broker_runtime.transactions.ids.states import COMPLETED, PREPARED, TRANSACTIONS_V2, TransactionState

_COMMITS: Mapping[TransactionState, bool] = {
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.COMPLETE_ABORT: False,
}
"""Whether a transaction that is complete was committed, by its state."""


class EndRequest(NamedTuple):
    """The fields of EndTxn. `version` is the transaction version of the request."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    version: int


class EndedProducer(NamedTuple):
    """The producer id and the epoch of the next transaction. Both are -1 before transaction version 2."""

    producer_id: int = NONE
    producer_epoch: int = NONE


Ended = tuple[list[TransactionRecord], EndedProducer]


def end_transaction(state: TransactionsState, environment: TransactionEnvironment, request: EndRequest) -> Ended:
    """Prepare the end of the producer's transaction, or answer a retry. Raises KafkaError."""
    if request.version >= TRANSACTIONS_V2:
        return _end_in_version_2(state, environment, request)
    before = of_producer(state.transactions.get(request.transactional_id), request.producer_id)
    if before.producer_epoch != request.producer_epoch:
        raise fenced()
    if before.state in PREPARED:
        raise concurrent()
    if before.state is TransactionState.ONGOING:
        return _prepare(before, environment, request)[0], EndedProducer()
    _check_retry(before, request)
    return [], EndedProducer()


def _check_retry(before: Transaction, request: EndRequest) -> None:
    """Check a request about a transaction that is complete or never began. Raises KafkaError if it is no retry."""
    if _COMMITS.get(before.state) is not request.is_commit:
        wanted = "commit" if request.is_commit else "abort"
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE, f"a transaction in the state {before.state.shown} cannot {wanted}"
        )


def _end_in_version_2(state: TransactionsState, environment: TransactionEnvironment, request: EndRequest) -> Ended:
    found = state.transactions.get(request.transactional_id)
    if found is not None and found.state in PREPARED:
        # The request may be a retry, or end the next transaction: its producer id and epoch may be those of the next.
        raise concurrent()
    is_retry_of_exhausted = found is not None and _is_retry_of_exhausted(found, request)
    before = found if is_retry_of_exhausted and found else of_producer(found, request.producer_id)
    is_retry = is_retry_of_exhausted or request.producer_epoch == before.producer_epoch - 1
    if before.state in COMPLETED and is_retry:
        _check_retry(before, request)
        return [], EndedProducer(before.producer_id, before.producer_epoch)
    if request.producer_epoch != before.producer_epoch:
        raise fenced()
    if before.state is TransactionState.ONGOING or not request.is_commit:
        return _prepare(before, environment, request)
    raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"a producer in the state {before.state.shown} has no transaction")


def _is_retry_of_exhausted(before: Transaction, request: EndRequest) -> bool:
    """Return whether the request ended the transaction after which the producer id was replaced."""
    return (
        before.state in COMPLETED
        and request.producer_id == before.previous_producer_id
        and request.producer_epoch == EPOCH_MAX
        and before.producer_epoch == 0
    )


def _prepare(before: Transaction, environment: TransactionEnvironment, request: EndRequest) -> Ended:
    after = prepared(
        before,
        TransactionState.PREPARE_COMMIT if request.is_commit else TransactionState.PREPARE_ABORT,
        environment.now_ms(),
        version=request.version,
        take_producer_id=environment.take_producer_id,
    )
    records = [TransactionRecord(request.transactional_id, after)]
    if not after.partitions:
        # An abort without a transaction needs no markers. It has both records in Apache Kafka, too.
        records.append(TransactionRecord(request.transactional_id, completed(after, environment.now_ms())))
    if after.next_producer_id != NONE:
        return records, EndedProducer(after.next_producer_id, 0)
    return records, EndedProducer(after.producer_id, after.producer_epoch)


def complete(
    state: TransactionsState, environment: TransactionEnvironment, transactional_id: str, expected: Transaction
) -> tuple[list[TransactionRecord], None]:
    """Complete a prepared transaction whose markers are all written, unless it is no longer the same."""
    if state.transactions.get(transactional_id) is not expected:
        return [], None
    return [TransactionRecord(transactional_id, completed(expected, environment.now_ms()))], None
