"""EndTxn answers and writes as Apache Kafka's coordinator does, in both transaction versions."""

import pytest

from broker_runtime.errors import ErrorCode
from broker_runtime.transactions.decisions.ending import EndRequest, complete, end_transaction
from broker_runtime.transactions.ids.metadata import Transaction
from broker_runtime.transactions.ids.partition_set import NO_PARTITIONS, PartitionSet
from broker_runtime.transactions.ids.states import TransactionState
from tests.support.transactions.deciding import ID, ORDERS, DecidingCoordinator

_NONE, BUSY, ILLEGAL = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE
FENCED, MAPPING = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING
E, ON, PC, PA, CC, CA, _ = TransactionState


def put(
    coordinator: DecidingCoordinator,
    state: TransactionState,
    epoch: int = 5,
    *,
    producer_id: int = 7,
    previous: int = -1,
) -> None:
    partitions = PartitionSet.of(ORDERS) if state in (ON, PC, PA) else NO_PARTITIONS
    coordinator.put(Transaction(producer_id, epoch, 60_000, state, partitions, 900, 800, previous))


@pytest.fixture
def coordinator() -> DecidingCoordinator:
    return DecidingCoordinator()


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [(PC, BUSY, BUSY), (PA, BUSY, BUSY), (CC, _NONE, ILLEGAL), (CA, ILLEGAL, _NONE), (E, ILLEGAL, ILLEGAL)],
)
def test_version_1_answers_by_state_without_a_record(
    coordinator: DecidingCoordinator, state: TransactionState, commit: ErrorCode, abort: ErrorCode
) -> None:
    put(coordinator, state)
    assert coordinator.code(coordinator.end, True, version=0) is commit
    assert coordinator.code(coordinator.end, False, version=0) is abort
    assert not coordinator.written


@pytest.mark.parametrize(("is_commit", "after"), [(True, PC), (False, PA)])
def test_version_1_keeps_the_epoch(coordinator: DecidingCoordinator, is_commit: bool, after: TransactionState) -> None:
    put(coordinator, ON)
    assert coordinator.end(is_commit, version=0) == (-1, -1)
    assert coordinator.transaction == Transaction(7, 5, 60_000, after, PartitionSet.of(ORDERS), 1_000, 800)


@pytest.mark.parametrize("version", [0, 2])
def test_an_unknown_id_and_another_producer_id_are_refused(coordinator: DecidingCoordinator, version: int) -> None:
    put(coordinator, ON)
    unknown = EndRequest("unknown", 7, 5, True, version)
    assert coordinator.code(coordinator.decide, end_transaction, unknown) is MAPPING
    assert coordinator.code(coordinator.end, True, version=version, producer_id=8, epoch=9) is MAPPING


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("epoch", [4, 6])
def test_another_epoch_of_an_ongoing_transaction_is_fenced(
    coordinator: DecidingCoordinator, version: int, epoch: int
) -> None:
    put(coordinator, ON)
    assert coordinator.code(coordinator.end, True, version=version, epoch=epoch) is FENCED


@pytest.mark.parametrize(("is_commit", "after"), [(True, PC), (False, PA)])
def test_version_2_raises_the_epoch(coordinator: DecidingCoordinator, is_commit: bool, after: TransactionState) -> None:
    put(coordinator, ON)
    assert coordinator.end(is_commit, version=2) == (7, 6)
    assert coordinator.transaction == Transaction(
        7, 6, 60_000, after, PartitionSet.of(ORDERS), 1_000, 800, client_version=2, last_producer_epoch=5
    )
    coordinator.complete()
    assert coordinator.transaction.producer_epoch == 6


@pytest.mark.parametrize(
    ("state", "epoch", "commit", "abort"),
    [
        (CC, 4, _NONE, ILLEGAL),
        (CA, 4, ILLEGAL, _NONE),
        (CC, 3, FENCED, FENCED),
        (CA, 6, FENCED, FENCED),
        (E, 4, FENCED, FENCED),
        (E, 6, FENCED, FENCED),
    ],
)
def test_version_2_takes_the_epoch_before_for_a_retry(
    coordinator: DecidingCoordinator, state: TransactionState, epoch: int, commit: ErrorCode, abort: ErrorCode
) -> None:
    put(coordinator, state)
    assert coordinator.code(coordinator.end, True, version=2, epoch=epoch) is commit
    assert coordinator.code(coordinator.end, False, version=2, epoch=epoch) is abort
    assert not coordinator.written


@pytest.mark.parametrize("state", [PC, PA])
@pytest.mark.parametrize("epoch", [3, 4, 5, 6])
@pytest.mark.parametrize("is_commit", [True, False])
def test_version_2_refuses_every_end_until_the_one_before_is_complete(
    coordinator: DecidingCoordinator, state: TransactionState, epoch: int, is_commit: bool
) -> None:
    """The current epoch is the one of the next transaction, which a client may abort although it has no partition."""
    put(coordinator, state)
    assert coordinator.code(coordinator.end, is_commit, version=2, epoch=epoch) is BUSY
    assert not coordinator.written


@pytest.mark.parametrize(("state", "is_commit"), [(CC, True), (CA, False)])
def test_a_retry_in_version_2_gets_the_current_producer(
    coordinator: DecidingCoordinator, state: TransactionState, is_commit: bool
) -> None:
    put(coordinator, state)
    assert coordinator.end(is_commit, version=2, epoch=4) == (7, 5)


@pytest.mark.parametrize("state", [E, CC, CA])
def test_version_2_aborts_without_a_transaction_and_raises_the_epoch(
    coordinator: DecidingCoordinator, state: TransactionState
) -> None:
    put(coordinator, state)
    assert coordinator.code(coordinator.end, True, version=2) is ILLEGAL
    assert coordinator.end(False, version=2) == (7, 6)
    assert [record.transaction and record.transaction.state for record in coordinator.written] == [PA, CA]
    prepared = coordinator.written[0].transaction
    assert prepared is not None
    assert (prepared.started_ms, prepared.partitions) == (1_000, NO_PARTITIONS)


def test_an_exhausted_producer_id_is_replaced_when_the_transaction_is_complete(
    coordinator: DecidingCoordinator,
) -> None:
    put(coordinator, ON, 32_766)
    assert coordinator.end(True, version=2) == (4_000, 0)
    prepared = coordinator.transaction
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (7, 32_767, 4_000)
    assert coordinator.code(coordinator.end, True, version=2, epoch=32_766) is BUSY
    assert coordinator.code(coordinator.end, False, version=2, producer_id=4_000, epoch=0) is BUSY
    coordinator.complete()
    after = coordinator.transaction
    assert (after.producer_id, after.producer_epoch, after.previous_producer_id) == (4_000, 0, 7)
    assert after.next_producer_id == -1
    assert coordinator.end(True, version=2, producer_id=7, epoch=32_766) == (4_000, 0), "the answer was lost"
    assert coordinator.code(coordinator.end, False, version=2, producer_id=7, epoch=32_766) is ILLEGAL


def test_a_complete_transaction_keeps_its_start_and_no_partitions(coordinator: DecidingCoordinator) -> None:
    put(coordinator, ON)
    coordinator.end(True, version=0)
    coordinator.environment.wall_ms = 2_000
    coordinator.complete()
    assert coordinator.transaction == Transaction(7, 5, 60_000, CC, NO_PARTITIONS, 2_000, 800)


def test_markers_of_an_earlier_transaction_complete_nothing(coordinator: DecidingCoordinator) -> None:
    put(coordinator, ON)
    coordinator.end(True, version=0)
    before = coordinator.transaction
    coordinator.complete()
    coordinator.decide(complete, ID, before)
    assert [record.transaction and record.transaction.state for record in coordinator.written] == [PC, CC]
