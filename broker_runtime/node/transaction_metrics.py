"""The metrics of transactions on a broker: of its coordinator, of markers, and of verifications. Names are Kafka's."""

from collections.abc import Iterable, Iterator
from itertools import takewhile

from broker_runtime.exposition import MetricFamily, counter, gauge
from broker_runtime.node.metrics import load_time_families
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.storage.records.producers import ProducerStates
from broker_runtime.transactions.coordinator_figures import TransactionFigures
from broker_runtime.transactions.seam import MarkerFigures
from broker_runtime.transactions.service import TransactionCoordinatorService
from broker_runtime.transactions.tally import TransactionTally
from broker_runtime.transactions.verification.figures import VerificationTally
from broker_runtime.transactions.verification.verifier import TransactionVerifier

_COORDINATOR = "kafka_server_transaction_coordinator_metrics_"
_MARKERS = "kafka_coordinator_transaction_transaction_marker_channel_manager_"
_LATE_MS = 5 * 60 * 1000
"""Time beyond transaction.max.timeout.ms in which a coordinator would have aborted the transaction, as in Kafka."""
_VERIFICATION = "kafka_server_add_partitions_to_txn_manager_"


def families_of(
    coordinator: TransactionCoordinatorService | None,
    verifier: TransactionVerifier | None,
    leaders: Iterable[LeaderReplica],
    late_ms: int,
) -> Iterator[MetricFamily]:
    """Yield all metrics of transactions on a broker.

    `late_ms` is the time after which a transaction that began then would exceed transaction.max.timeout.ms now.
    """
    figures, tally, markers = TransactionFigures(0, 0, 0, 0, 0), TransactionTally(), MarkerFigures()
    if coordinator is not None:
        figures, tally, markers = coordinator.figures(), coordinator.tally, coordinator.markers.figures()
    yield from transaction_coordinator_families(figures, tally, markers)
    if verifier is None:
        yield from verification_families(VerificationTally(), 0)
    else:
        yield from verification_families(verifier.tally, verifier.questions.waiting)
    yield late_transactions_family(late_partitions(leaders, late_ms - _LATE_MS))


def has_late_transaction(producers: ProducerStates, before_ms: int) -> bool:
    """Return whether a transaction is open whose producer wrote its last batch before this time."""
    if not producers.transactions:
        return False
    # They are in the order of their last batch.
    old = takewhile(lambda each: each[1].timestamp < before_ms, producers)
    return any(producer.first_offset >= 0 for _, producer in old)


def late_partitions(leaders: Iterable[LeaderReplica], before_ms: int) -> int:
    """Return the number of led partitions with an open transaction that has written nothing since this time."""
    return sum(1 for leader in leaders if has_late_transaction(leader.log.producers, before_ms))


def transaction_coordinator_families(
    figures: TransactionFigures, tally: TransactionTally, markers: MarkerFigures
) -> Iterator[MetricFamily]:
    """Yield the metrics of the transaction coordinator and of its markers."""
    partitions = MetricFamily(
        _COORDINATOR + "num_partitions",
        "gauge",
        "Partitions of __transaction_state that this broker leads, by state; transactions wait while their partition "
        "is not active",
    )
    for state, count in (("loading", figures.loading), ("active", figures.active), ("failed", figures.failed)):
        partitions.add(count, state=state)
    yield partitions
    yield gauge(_COORDINATOR + "transactional_id_count", "Transactional ids of this coordinator", figures.ids)
    yield gauge(
        _COORDINATOR + "ongoing_transaction_count",
        "Transactions that this broker coordinates and that are open",
        figures.ongoing,
    )
    ended = MetricFamily(
        _COORDINATOR + "transaction_end_total", "counter", "Transactions whose end this broker has decided, by result"
    )
    ended.add(tally.commits, result="commit")
    ended.add(tally.aborts, result="abort")
    yield ended
    yield counter(
        _COORDINATOR + "transaction_timeout_total",
        "Transactions that this broker has aborted because they took longer than their timeout",
        tally.timeouts,
    )
    yield counter(
        _COORDINATOR + "transactional_id_expiration_total",
        "Transactional ids that were removed after transactional.id.expiration.ms without use",
        tally.expirations,
    )
    yield from load_time_families(_COORDINATOR, "__transaction_state", tally.load_max_ms, tally.load_ms, tally.loads)
    yield counter(
        "sluicegate_transaction_coordinator_failures_total",
        "Transaction coordinators of partitions that failed and were restarted; /readyz has the reason",
        tally.failures,
    )
    yield gauge(
        "sluicegate_transaction_ending_count",
        "Transactions that have ended and of which some partitions have no marker yet",
        markers.transactions,
    )
    yield gauge(_MARKERS + "queue_size", "Partitions whose marker waits for a request to their leader", markers.waiting)
    yield gauge(
        _MARKERS + "unknown_destination_queue_size",
        "Partitions whose marker waits because their leader is unknown or not alive",
        markers.unknown,
    )


def verification_families(tally: VerificationTally, waiting: int) -> Iterator[MetricFamily]:
    """Yield the metrics of the verification of transactions. `waiting` is the number of questions that wait."""
    yield counter(
        _VERIFICATION + "verification_total",
        "Questions of this broker to coordinators, whether partitions belong to a transaction",
        tally.questions,
    )
    yield counter(
        _VERIFICATION + "verification_failure_total",
        "Partitions whose transaction was not verified; their records were refused",
        tally.failures,
    )
    yield counter(
        _VERIFICATION + "verification_time_ms_total",
        "Time from questions to coordinators to their answers, milliseconds",
        tally.time_ms,
    )
    yield gauge(
        _VERIFICATION + "verification_time_ms_max",
        "Longest time from a question to its answer since the start, milliseconds",
        tally.time_max_ms,
    )
    yield gauge(
        _VERIFICATION + "verification_queue_size",
        "Transactions whose question waits for a request to the coordinator's broker",
        waiting,
    )


def late_transactions_family(partitions: int) -> MetricFamily:
    """Return the metric of led partitions with a transaction that has been open for too long."""
    return gauge(
        "kafka_server_replica_manager_partitions_with_late_transactions_count",
        "Led partitions with a transaction that has written nothing for transaction.max.timeout.ms and 5 minutes: it "
        "hangs, and readers of committed records wait",
        partitions,
    )
