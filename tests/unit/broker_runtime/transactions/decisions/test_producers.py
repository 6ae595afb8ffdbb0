"""InitProducerId with a transactional id answers and writes as Apache Kafka's coordinator does."""

import pytest

from broker_runtime.errors import ErrorCode
from broker_runtime.transactions.decisions.producers import check_timeout
from broker_runtime.transactions.ids.metadata import Transaction
from broker_runtime.transactions.ids.partition_set import NO_PARTITIONS, PartitionSet
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.states import TransactionState
from tests.support.transactions.deciding import ID, ORDERS, DecidingCoordinator

FENCED, BUSY = ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS
IDLE = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


@pytest.fixture
def coordinator() -> DecidingCoordinator:
    return DecidingCoordinator()


def stored(
    state: TransactionState, epoch: int, *, previous: int = -1, last_epoch: int = -1, producer_id: int = 7
) -> Transaction:
    partitions = PartitionSet.of(ORDERS) if state is TransactionState.ONGOING else NO_PARTITIONS
    return Transaction(producer_id, epoch, 60_000, state, partitions, 900, 800, previous, -1, 0, last_epoch)


def test_a_new_id_gets_a_new_producer_id_with_epoch_0(coordinator: DecidingCoordinator) -> None:
    assert coordinator.init() == (4_000, 0, ErrorCode.NONE)
    assert coordinator.transaction == Transaction(4_000, 0, 60_000, TransactionState.EMPTY, NO_PARTITIONS, 1_000)


def test_a_new_id_with_a_producer_id_gets_another_producer_id(coordinator: DecidingCoordinator) -> None:
    assert coordinator.init(55, 3) == (4_000, 0, ErrorCode.NONE)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_range_is_refused(coordinator: DecidingCoordinator, timeout_ms: int) -> None:
    check_timeout(900_000, 900_000)
    assert coordinator.code(check_timeout, timeout_ms, 900_000) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("state", IDLE)
def test_a_producer_without_an_epoch_gets_the_next_epoch(
    coordinator: DecidingCoordinator, state: TransactionState
) -> None:
    coordinator.put(stored(state, 5, last_epoch=4))
    assert coordinator.init(timeout_ms=30_000) == (7, 6, ErrorCode.NONE)
    assert coordinator.transaction == Transaction(7, 6, 30_000, TransactionState.EMPTY, NO_PARTITIONS, 1_000)


def test_a_producer_with_the_stored_epoch_gets_the_next_one_and_a_retry_the_same(
    coordinator: DecidingCoordinator,
) -> None:
    coordinator.put(stored(TransactionState.COMPLETE_COMMIT, 5))
    assert coordinator.init(7, 5) == (7, 6, ErrorCode.NONE)
    assert coordinator.init(7, 5) == (7, 6, ErrorCode.NONE), "the answer was lost"
    assert coordinator.code(coordinator.init, 7, 4) is FENCED


@pytest.mark.parametrize(("producer_id", "epoch"), [(7, 3), (7, 6), (8, 5), (6, 5), (6, 32_765)])
def test_another_producer_id_or_epoch_is_fenced(coordinator: DecidingCoordinator, producer_id: int, epoch: int) -> None:
    coordinator.put(stored(TransactionState.EMPTY, 5, previous=6))
    assert coordinator.code(coordinator.init, producer_id, epoch) is FENCED


@pytest.mark.parametrize("epoch", [32_766, 32_767])
@pytest.mark.parametrize("given", [True, False])
def test_an_exhausted_producer_id_is_replaced(coordinator: DecidingCoordinator, epoch: int, given: bool) -> None:
    coordinator.put(stored(TransactionState.COMPLETE_ABORT, epoch))
    assert coordinator.init(*((7, epoch) if given else ())) == (4_000, 0, ErrorCode.NONE)
    after = coordinator.transaction
    assert (after.previous_producer_id, after.last_producer_epoch) == (7, epoch if given else -1)


def test_a_retry_after_the_producer_id_was_replaced_gets_the_same_answer(coordinator: DecidingCoordinator) -> None:
    coordinator.put(stored(TransactionState.COMPLETE_ABORT, 32_766))
    assert coordinator.init(7, 32_766) == coordinator.init(7, 32_766) == (4_000, 0, ErrorCode.NONE)


def test_an_exhausted_producer_id_with_another_epoch_is_an_internal_error(coordinator: DecidingCoordinator) -> None:
    coordinator.put(stored(TransactionState.EMPTY, 32_766))
    assert coordinator.code(coordinator.init, 7, 4) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_exhausted_producer_id_waits_for_a_new_one(coordinator: DecidingCoordinator) -> None:
    coordinator.put(stored(TransactionState.EMPTY, 32_766))
    coordinator.environment.has_ids = False
    assert coordinator.code(coordinator.init) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_a_prepared_transaction_must_complete_first(coordinator: DecidingCoordinator, state: TransactionState) -> None:
    coordinator.put(stored(state, 5))
    assert coordinator.code(coordinator.init) is BUSY
    assert coordinator.code(coordinator.init, 8, 5) is FENCED, "the producer id is checked first"


@pytest.mark.parametrize(("version", "last_epoch"), [(0, -1), (1, -1), (2, 5)])
def test_an_ongoing_transaction_is_aborted_first(
    coordinator: DecidingCoordinator, version: int, last_epoch: int
) -> None:
    coordinator.environment.transaction_version = version
    coordinator.put(stored(TransactionState.ONGOING, 5))
    assert coordinator.init() == (-1, -1, BUSY)
    aborted = coordinator.transaction
    assert (aborted.state, aborted.producer_epoch) == (TransactionState.PREPARE_ABORT, 6)
    assert (aborted.last_producer_epoch, aborted.client_version) == (last_epoch, version)
    assert aborted.partitions == PartitionSet.of(ORDERS)
    coordinator.complete()
    assert coordinator.init() == (7, 7, ErrorCode.NONE)


def test_the_first_of_two_producers_is_fenced(coordinator: DecidingCoordinator) -> None:
    coordinator.init()
    assert coordinator.init() == (4_000, 1, ErrorCode.NONE)
    assert coordinator.code(coordinator.add, epoch=0) is FENCED
    assert coordinator.code(coordinator.end, True, version=0, epoch=0) is FENCED


def _put(coordinator: DecidingCoordinator, transactional_id: str, state: TransactionState) -> None:
    record = TransactionRecord(transactional_id, stored(state, 5))
    coordinator.state.apply(record, coordinator.state.next_offset)


def test_a_new_id_without_room_takes_the_place_of_the_id_that_was_used_longest_ago(
    coordinator: DecidingCoordinator,
) -> None:
    coordinator.environment.ids_max = 3
    _put(coordinator, "in a transaction", TransactionState.ONGOING)
    _put(coordinator, "old", TransactionState.EMPTY)
    _put(coordinator, "used", TransactionState.EMPTY)
    _put(coordinator, "old", TransactionState.COMPLETE_COMMIT)
    assert coordinator.init() == (4_000, 0, ErrorCode.NONE)
    assert coordinator.written[0] == TransactionRecord("used", None)
    assert list(coordinator.state.transactions) == ["in a transaction", "old", ID]
    assert coordinator.init() == (4_000, 1, ErrorCode.NONE), "an id that exists needs no room"


def test_a_new_id_waits_for_room_while_all_others_have_transactions(coordinator: DecidingCoordinator) -> None:
    coordinator.environment.ids_max = 2
    _put(coordinator, "one", TransactionState.ONGOING)
    _put(coordinator, "two", TransactionState.PREPARE_ABORT)
    assert coordinator.code(coordinator.init) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not coordinator.written
    _put(coordinator, "one", TransactionState.COMPLETE_ABORT)
    assert coordinator.init() == (4_000, 0, ErrorCode.NONE)
