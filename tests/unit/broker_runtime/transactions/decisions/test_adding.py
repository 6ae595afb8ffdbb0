"""AddPartitionsToTxn and the verification of partitions answer as Apache Kafka's coordinator does."""

import pytest

from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import at_once
from broker_runtime.transactions.decisions.adding import add_partitions, verified
from broker_runtime.transactions.ids.metadata import Transaction
from broker_runtime.transactions.ids.partition_set import PartitionSet
from broker_runtime.transactions.ids.states import TransactionState
from tests.support.transactions.deciding import ID, ORDERS, DecidingCoordinator

OTHER = ("orders", 1)
PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


@pytest.fixture
def coordinator() -> DecidingCoordinator:
    made = DecidingCoordinator()
    made.init()
    made.init()
    return made


def put_state(coordinator: DecidingCoordinator, state: TransactionState) -> None:
    coordinator.put(coordinator.transaction._replace(state=state))


def test_the_first_partitions_begin_a_transaction(coordinator: DecidingCoordinator) -> None:
    coordinator.environment.wall_ms = 5_000
    coordinator.add(ORDERS, OTHER)
    assert coordinator.transaction == Transaction(
        4_000, 1, 60_000, TransactionState.ONGOING, PartitionSet.of(ORDERS, OTHER), 5_000, 5_000
    )


def test_more_partitions_keep_the_start_of_the_transaction(coordinator: DecidingCoordinator) -> None:
    coordinator.add(ORDERS)
    coordinator.environment.wall_ms = 9_000
    coordinator.add(OTHER, version=2)
    after = coordinator.transaction
    assert (after.partitions, after.started_ms, after.last_update_ms) == (PartitionSet.of(ORDERS, OTHER), 1_000, 9_000)
    assert after.client_version == 2


def test_partitions_that_are_in_the_transaction_write_no_record(coordinator: DecidingCoordinator) -> None:
    coordinator.add(ORDERS, OTHER)
    written = len(coordinator.written)
    coordinator.add(OTHER)
    assert len(coordinator.written) == written


@pytest.mark.parametrize("state", [TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT])
def test_a_new_transaction_follows_a_complete_one(coordinator: DecidingCoordinator, state: TransactionState) -> None:
    put_state(coordinator, state)
    coordinator.environment.wall_ms = 7_000
    coordinator.add()
    assert (coordinator.transaction.state, coordinator.transaction.started_ms) == (TransactionState.ONGOING, 7_000)


def test_an_unknown_id_is_refused(coordinator: DecidingCoordinator) -> None:
    code = coordinator.code(coordinator.decide, add_partitions, "unknown", 4_000, 1, (ORDERS,), 0)
    assert code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_another_producer_id_is_refused(coordinator: DecidingCoordinator) -> None:
    code = coordinator.code(coordinator.decide, add_partitions, ID, 4_001, 1, (ORDERS,), 0)
    assert code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("epoch", [0, 2])
def test_another_epoch_is_fenced_whether_lower_or_higher(coordinator: DecidingCoordinator, epoch: int) -> None:
    assert coordinator.code(coordinator.add, epoch=epoch) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("state", PREPARED)
def test_a_prepared_transaction_takes_no_partitions(coordinator: DecidingCoordinator, state: TransactionState) -> None:
    put_state(coordinator, state)
    assert coordinator.code(coordinator.add) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.code(coordinator.add, epoch=0) is ErrorCode.PRODUCER_FENCED, "the epoch is checked first"


def verify(coordinator: DecidingCoordinator, producer_id: int = 4_000, epoch: int = 1, of: str = ID) -> object:
    return at_once(verified(coordinator.state.transactions.get(of), producer_id, epoch, (ORDERS, OTHER)))


def test_verification_tells_which_partitions_are_in_the_transaction(coordinator: DecidingCoordinator) -> None:
    assert verify(coordinator) == {ORDERS: ErrorCode.TRANSACTION_ABORTABLE, OTHER: ErrorCode.TRANSACTION_ABORTABLE}
    coordinator.add(ORDERS)
    assert verify(coordinator) == {ORDERS: ErrorCode.NONE, OTHER: ErrorCode.TRANSACTION_ABORTABLE}


def test_verification_is_refused_in_the_order_of_kafka(coordinator: DecidingCoordinator) -> None:
    put_state(coordinator, TransactionState.PREPARE_COMMIT)
    assert coordinator.code(verify, coordinator, of="unknown") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.code(verify, coordinator, producer_id=1, epoch=9) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.code(verify, coordinator, epoch=9) is ErrorCode.PRODUCER_FENCED
    assert coordinator.code(verify, coordinator) is ErrorCode.CONCURRENT_TRANSACTIONS
