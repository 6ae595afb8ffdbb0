"""The metrics of transactions: zero without any, and the numbers of the parts that exist."""

from types import SimpleNamespace
from typing import Any

from broker_runtime.errors import ErrorCode
from broker_runtime.exposition import MetricFamily
from broker_runtime.node.transaction_metrics import families_of, has_late_transaction, late_partitions
from broker_runtime.storage.records.producers import ProducerStates, StoredBatch
from broker_runtime.transactions.coordinator_figures import TransactionFigures
from broker_runtime.transactions.seam import MarkerFigures
from broker_runtime.transactions.tally import TransactionTally
from broker_runtime.transactions.verification.figures import VerificationTally
from kafka_bytes.control import Marker
from tests.support.logs.logs import LogHouse
from tests.support.logs.replicas import leading
from tests.support.logs.transactions import write


def values(families: list[MetricFamily]) -> dict[str, float]:
    """The value of each series, by the name of the family and the values of its labels."""
    every = [(family, series) for family in families for series in family.series]
    return {"/".join((family.name, *series.labels.values())): series.value for family, series in every}


def test_each_family_is_there_before_the_first_transaction() -> None:
    assert not any(values(list(families_of(None, None, [], 0))).values())


def test_the_numbers_are_those_of_the_coordinator_and_the_verifier() -> None:
    verifications = VerificationTally()
    verifications.answered({("orders", 0): ErrorCode.NONE, ("orders", 1): ErrorCode.TRANSACTION_ABORTABLE}, 0.25)
    coordinator: Any = SimpleNamespace(
        figures=lambda: TransactionFigures(1, 2, 3, 40, 5),
        tally=TransactionTally(commits=6, aborts=7, timeouts=1),
        markers=SimpleNamespace(figures=lambda: MarkerFigures(8, 9, 10)),
    )
    verifier: Any = SimpleNamespace(tally=verifications, questions=SimpleNamespace(waiting=11))
    found = {name: value for name, value in values(list(families_of(coordinator, verifier, [], 0))).items() if value}
    coordination = "kafka_server_transaction_coordinator_metrics_"
    channel = "kafka_coordinator_transaction_transaction_marker_channel_manager_"
    verification = "kafka_server_add_partitions_to_txn_manager_verification_"
    assert found == {
        coordination + "num_partitions/loading": 1,
        coordination + "num_partitions/active": 2,
        coordination + "num_partitions/failed": 3,
        coordination + "transactional_id_count": 40,
        coordination + "ongoing_transaction_count": 5,
        coordination + "transaction_end_total/commit": 6,
        coordination + "transaction_end_total/abort": 7,
        coordination + "transaction_timeout_total": 1,
        "sluicegate_transaction_ending_count": 8,
        channel + "queue_size": 9,
        channel + "unknown_destination_queue_size": 10,
        verification + "total": 1,
        verification + "failure_total": 1,
        verification + "time_ms_total": 250,
        verification + "time_ms_max": 250,
        verification + "queue_size": 11,
    }


def test_a_partition_whose_transaction_hangs_is_counted() -> None:
    house = LogHouse()
    leader = leading(house.log)
    write(house.log, b"a")
    begun_ms = house.clock.wall_ms()
    assert late_partitions([leader], begun_ms) == 0
    assert late_partitions([leader], begun_ms + 1) == 1


def test_a_transaction_is_late_once_its_producer_writes_nothing_for_too_long() -> None:
    producers = ProducerStates()
    producers.record(8, 0, StoredBatch(0, 0, 1, 1, 500), 500)
    producers.record(7, 0, StoredBatch(0, 0, 0, 0, 1_000), 1_000, is_transactional=True)
    assert not has_late_transaction(producers, 1_000)
    assert has_late_transaction(producers, 1_001)
    producers.end(Marker(7, 0, True, 3), 2, 2_000, 2_000)
    assert not has_late_transaction(producers, 5_000)
