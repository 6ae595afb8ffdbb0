"""Transactions that take too long are aborted, and ids without use are removed, as in Apache Kafka."""

import pytest

from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import at_once
from broker_runtime.transactions.ids.metadata import Transaction
from broker_runtime.transactions.ids.partition_set import NO_PARTITIONS, PartitionSet
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.states import TransactionState
from broker_runtime.transactions.timeouts import abort_if_timed_out, expired, timed_out
from tests.support.transactions.deciding import ID, ORDERS, DecidingCoordinator

BEGUN_MS, TIMEOUT_MS = 1_000, 60_000


def ongoing(version: int, epoch: int = 5) -> DecidingCoordinator:
    made = DecidingCoordinator()
    made.environment.transaction_version = version
    made.put(Transaction(7, epoch, TIMEOUT_MS, TransactionState.ONGOING, PartitionSet.of(ORDERS), BEGUN_MS, BEGUN_MS))
    made.environment.wall_ms = BEGUN_MS + TIMEOUT_MS + 1
    return made


def test_only_a_transaction_beyond_its_timeout_is_aborted() -> None:
    coordinator = ongoing(2)
    coordinator.environment.wall_ms -= 1
    assert at_once(timed_out(coordinator.state, coordinator.environment.wall_ms)) == []
    coordinator.decide(abort_if_timed_out, ID)
    assert not coordinator.written
    coordinator.environment.wall_ms += 1
    assert at_once(timed_out(coordinator.state, coordinator.environment.wall_ms)) == [ID]


@pytest.mark.parametrize("version", [0, 1])
def test_the_producer_of_an_aborted_transaction_is_fenced_before_version_2(version: int) -> None:
    coordinator = ongoing(version)
    coordinator.decide(abort_if_timed_out, ID)
    assert (coordinator.transaction.state, coordinator.transaction.producer_epoch) == (
        TransactionState.PREPARE_ABORT,
        6,
    )
    coordinator.complete()
    assert coordinator.code(coordinator.end, False, version=0, epoch=5) is ErrorCode.PRODUCER_FENCED
    assert coordinator.code(coordinator.init, 7, 5) is ErrorCode.PRODUCER_FENCED


def test_the_producer_of_an_aborted_transaction_continues_in_version_2() -> None:
    coordinator = ongoing(2)
    coordinator.decide(abort_if_timed_out, ID)
    coordinator.complete()
    assert coordinator.code(coordinator.end, True, version=2, epoch=5) is ErrorCode.INVALID_TXN_STATE
    assert coordinator.end(False, version=2, epoch=5) == (7, 6)
    assert coordinator.init(7, 5) == (7, 6, ErrorCode.NONE)


@pytest.mark.parametrize("epoch", [32_766, 32_767])
@pytest.mark.parametrize("version", [0, 2])
def test_an_exhausted_producer_is_fenced_with_the_highest_epoch(epoch: int, version: int) -> None:
    coordinator = ongoing(version, epoch)
    coordinator.decide(abort_if_timed_out, ID)
    assert (coordinator.transaction.producer_id, coordinator.transaction.producer_epoch) == (7, 32_767)
    coordinator.complete()
    assert coordinator.transaction.producer_id == (4_000 if version == 2 else 7)
    assert coordinator.init()[1] == (1 if version == 2 else 0)


def test_an_exhausted_producer_waits_for_a_producer_id() -> None:
    coordinator = ongoing(2, 32_766)
    coordinator.environment.has_ids = False
    code = coordinator.code(coordinator.decide, abort_if_timed_out, ID)
    assert code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert coordinator.transaction.state is TransactionState.ONGOING


@pytest.mark.parametrize("state", TransactionState)
def test_ids_without_a_transaction_expire(state: TransactionState) -> None:
    coordinator = DecidingCoordinator()
    partitions = PartitionSet.of(ORDERS) if state in (1, 2, 3) else NO_PARTITIONS
    coordinator.put(Transaction(7, 5, TIMEOUT_MS, state, partitions, BEGUN_MS))
    assert at_once(expired(coordinator.state, BEGUN_MS - 1)) == []
    found = at_once(expired(coordinator.state, BEGUN_MS))
    assert found == ([TransactionRecord(ID, None)] if state in (0, 4, 5) else [])
