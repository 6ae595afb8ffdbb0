"""The keys of transaction coordinators, of `__transaction_state`, and of the check of transactional writes. Pure.

Names, defaults and rules are Apache Kafka's.
"""

from broker_runtime.config.declaring.allowed import at_least, between
from broker_runtime.config.declaring.declaration import Config, dynamic, static
from broker_runtime.config.declaring.definition import Key, Type

INT, SHORT, BOOLEAN = Type.INT, Type.SHORT, Type.BOOLEAN


class TransactionTopicConfig(Config):
    """Configuration keys of the topic `__transaction_state`."""

    transaction_state_log_num_partitions: Key[int] = static(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "Partitions of __transaction_state; must not change once the topic exists.",
        at_least(1),
    )
    transaction_state_log_replication_factor: Key[int] = static(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        "Replicas with which __transaction_state is created; fewer while there are fewer brokers. An existing topic "
        "keeps its number of replicas until it is reassigned.",
        at_least(1),
    )
    transaction_state_log_min_isr: Key[int] = static(
        "transaction.state.log.min.isr",
        INT,
        2,
        "min.insync.replicas with which __transaction_state is created; fewer while there are fewer brokers.",
        at_least(1),
    )
    transaction_state_log_segment_bytes: Key[int] = static(
        "transaction.state.log.segment.bytes",
        INT,
        104_857_600,
        "Size at which segments of __transaction_state are rolled.",
        at_least(14),
    )


class TransactionRequestConfig(TransactionTopicConfig):
    """Configuration keys of the requests about transactions that brokers send to each other."""

    sluicegate_transaction_request_partitions_max: Key[int] = static(
        "sluicegate.transaction.request.partitions.max",
        INT,
        1_000,
        "Partitions in one request to another broker: with markers, or with questions of leaders to coordinators. "
        "Further ones wait for the next request.",
        between(1, 3_000),
    )
    sluicegate_transaction_marker_retry_backoff_ms: Key[int] = static(
        "sluicegate.transaction.marker.retry.backoff.ms",
        INT,
        20,
        "First pause before a marker is sent again, or the leader of its partition is looked up again. Each further "
        "pause is twice as long.",
        at_least(1),
    )
    sluicegate_transaction_marker_retry_backoff_max_ms: Key[int] = static(
        "sluicegate.transaction.marker.retry.backoff.max.ms",
        INT,
        500,
        "Longest pause before a marker is sent again.",
        at_least(1),
    )
    sluicegate_transaction_verification_queue_max: Key[int] = static(
        "sluicegate.transaction.verification.queue.max",
        INT,
        10_000,
        "Transactions whose verification waits for a request to one other broker. The records of further ones are "
        "refused with NOT_ENOUGH_REPLICAS, after which clients send them again.",
        at_least(1),
    )


class TransactionConfig(TransactionRequestConfig):
    """Configuration keys of transaction coordinators, and of leaders that write transactional records."""

    transactional_id_expiration_ms: Key[int] = static(
        "transactional.id.expiration.ms",
        INT,
        604_800_000,
        "Time after its last use at which a transactional id without a transaction is removed.",
        at_least(1),
    )
    transaction_max_timeout_ms: Key[int] = static(
        "transaction.max.timeout.ms",
        INT,
        900_000,
        "Longest transaction timeout that a producer may ask for. A longer one is refused.",
        at_least(1),
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: Key[int] = static(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        "Interval at which transactions that exceed their timeout are aborted.",
        at_least(1),
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: Key[int] = static(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        "Interval at which transactional ids that have expired are removed.",
        at_least(1),
    )
    transaction_partition_verification_enable: Key[bool] = dynamic(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "Whether a leader asks the coordinator if a partition belongs to the transaction before it appends the "
        "transaction's first records (KIP-890). Without effect on clients of transaction version 2.",
    )
    add_partitions_to_txn_retry_backoff_ms: Key[int] = static(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        "Time after which a leader adds a partition to a transaction again, while the transaction before is being "
        "completed.",
        at_least(1),
    )
    add_partitions_to_txn_retry_backoff_max_ms: Key[int] = static(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        100,
        "Longest time for which a leader tries to add a partition to a transaction again, and for which a coordinator "
        "lets the next transaction of a producer wait until the last one is complete.",
        at_least(0),
    )
    sluicegate_transaction_coordinator_ids_max: Key[int] = static(
        "sluicegate.transaction.coordinator.ids.max",
        INT,
        10_000,
        "Transactional ids of one partition of __transaction_state. For a new one beyond the limit, the coordinator "
        "forgets the one without a transaction that was used longest ago, as after transactional.id.expiration.ms.",
        at_least(1),
    )
    sluicegate_transaction_coordinator_queue_max: Key[int] = static(
        "sluicegate.transaction.coordinator.queue.max",
        INT,
        50_000,
        "Requests that may wait for the coordinator of one partition of __transaction_state.",
        at_least(1),
    )
