"""One leader epoch of a partition of `__transaction_state` on this broker."""

from broker_runtime.coordination.replicated_log import LedPartition
from broker_runtime.coordination.term import HostedTerm, TermSettings
from broker_runtime.transactions.environment import TransactionEnvironment
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.state import TransactionsState
from broker_runtime.transactions.shard import TransactionShard
from broker_runtime.transactions.shard_environment import TransactionDependencies

_COMMIT_TIMEOUT_KEY = "request.timeout.ms"


class TransactionTerm(HostedTerm[TransactionsState, TransactionRecord, TransactionEnvironment]):
    """The transactional ids of one partition while this broker leads the partition in one epoch."""

    def __init__(self, dependencies: TransactionDependencies, leader: LedPartition) -> None:
        config = dependencies.config()
        self.shard = TransactionShard(dependencies, leader)
        environment = self.shard.environment
        settings = TermSettings(
            dependencies.clock,
            dependencies.slices,
            config.sluicegate_transaction_coordinator_queue_max,
            config.request_timeout_ms / 1000,
            _COMMIT_TIMEOUT_KEY,
            dependencies.tally.loaded,
        )
        parts = self.shard, environment, environment.timers, TransactionsState(), leader, settings
        super().__init__(*parts, environment.postponed)
