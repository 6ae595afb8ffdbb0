"""Decides InitProducerId with a transactional id (KIP-98, KIP-360). Pure."""

from itertools import islice
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.transactions.decisions.known import concurrent, fenced
from broker_runtime.transactions.environment import TransactionEnvironment
from broker_runtime.transactions.ids.metadata import (
    EPOCH_MAX,
    NONE,
    Transaction,
    aborted_by_coordinator,
    moved,
)
from broker_runtime.transactions.ids.partition_set import NO_PARTITIONS
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.state import TransactionsState
from broker_runtime.transactions.ids.states import IDLE, PREPARED, TransactionState

_LOOKED_AT_MAX = 100
"""Number of ids among which one without a transaction is searched, if there is no room for another id."""


class InitializedProducer(NamedTuple):
    """The answer to InitProducerId. An error has the producer id and the epoch -1."""

    producer_id: int
    producer_epoch: int
    code: ErrorCode = ErrorCode.NONE


_ABORTING = InitializedProducer(NONE, NONE, ErrorCode.CONCURRENT_TRANSACTIONS)


class InitRequest(NamedTuple):
    """The fields of InitProducerId. A producer that has an id and an epoch already sends both."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NONE
    producer_epoch: int = NONE


def check_timeout(timeout_ms: int, timeout_max_ms: int) -> None:
    """Check the transaction timeout of a producer. Raises KafkaError(INVALID_TRANSACTION_TIMEOUT)."""
    if not 0 < timeout_ms <= timeout_max_ms:
        why = f"the transaction timeout must be from 1 ms to transaction.max.timeout.ms={timeout_max_ms}"
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, why)


def init_producer(
    state: TransactionsState, environment: TransactionEnvironment, request: InitRequest
) -> tuple[list[TransactionRecord], InitializedProducer]:
    """Give the transactional id a producer with an epoch that fences all earlier ones.

    An ongoing transaction is aborted first; the producer asks again until that is complete. Raises KafkaError.
    """
    before = state.transactions.get(request.transactional_id)
    if before is None:
        forgotten = _forgotten(state, environment)
        records, initialized = _written(request, _first(environment, request))
        return [*forgotten, *records], initialized
    if not _may_continue(before, request):
        raise fenced()
    if before.state in PREPARED:
        raise concurrent()
    if before.state is TransactionState.ONGOING:
        aborted = aborted_by_coordinator(
            before,
            environment.now_ms(),
            version=environment.transaction_version,
            take_producer_id=environment.take_producer_id,
        )
        return [TransactionRecord(request.transactional_id, aborted)], _ABORTING
    changes = _next_epoch(before, environment, request)
    now_ms = environment.now_ms()
    after = moved(before, TransactionState.EMPTY, now_ms, timeout_ms=request.timeout_ms, started_ms=NONE, **changes)
    return _written(request, after)


def _forgotten(state: TransactionsState, environment: TransactionEnvironment) -> list[TransactionRecord]:
    """Return the tombstone of the id that makes room for a new one, if there is no room.

    Raises KafkaError(COORDINATOR_NOT_AVAILABLE) if the ids that were used longest ago all have transactions: these end
    or time out, and clients try again.
    """
    if len(state.transactions) < environment.ids_max:
        return []
    for transactional_id, transaction in islice(state.transactions.items(), _LOOKED_AT_MAX):
        if transaction.state in IDLE:
            return [TransactionRecord(transactional_id, None)]
    why = (
        f"there are {len(state.transactions)} transactional ids, and the oldest ones have transactions; "
        "sluicegate.transaction.coordinator.ids.max limits them"
    )
    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, why)


def _written(request: InitRequest, after: Transaction) -> tuple[list[TransactionRecord], InitializedProducer]:
    initialized = InitializedProducer(after.producer_id, after.producer_epoch)
    return [TransactionRecord(request.transactional_id, after)], initialized


def _first(environment: TransactionEnvironment, request: InitRequest) -> Transaction:
    producer_id, now_ms = environment.take_producer_id(), environment.now_ms()
    return Transaction(producer_id, 0, request.timeout_ms, TransactionState.EMPTY, NO_PARTITIONS, now_ms)


def _may_continue(before: Transaction, request: InitRequest) -> bool:
    """Return whether the request is of the id's producer, or of the one before if its producer id was exhausted."""
    if request.producer_id in (NONE, before.producer_id):
        return True
    return request.producer_id == before.previous_producer_id and request.producer_epoch >= EPOCH_MAX


def _next_epoch(before: Transaction, environment: TransactionEnvironment, request: InitRequest) -> dict[str, int]:
    """Return the changed fields that give the request an epoch. Raises KafkaError(PRODUCER_FENCED) for a wrong one."""
    given, stored = request.producer_epoch, before.producer_epoch
    if before.is_exhausted:
        if given not in (NONE, stored):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the epoch {given} does not follow {stored}")
        return {
            "producer_id": environment.take_producer_id(),
            "producer_epoch": 0,
            "previous_producer_id": before.producer_id,
            "last_producer_epoch": NONE if given == NONE else stored,
        }
    if given == NONE:
        return {"producer_epoch": stored + 1, "last_producer_epoch": NONE}
    if given == stored:
        return {"producer_epoch": stored + 1, "last_producer_epoch": stored}
    if given == before.last_producer_epoch:
        # A retry of a request whose answer was lost gets the same epoch again.
        return {}
    raise fenced()
