"""What a shard of the transaction coordinator gets from its broker: clock, configuration, ids, markers and timers."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from broker_runtime.clock import Clock
from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.deciding_slices import DecidingSlices
from broker_runtime.coordination.postponed import PostponedDecisions
from broker_runtime.coordination.seam import Decision
from broker_runtime.coordination.timer_service import TimerService
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.state import TransactionsState
from broker_runtime.transactions.seam import Markers
from broker_runtime.transactions.tally import TransactionTally


class ProducerIdSource(Protocol):
    """The producer ids that this broker assigns."""

    async def ready(self) -> None:
        """Wait until an id is at hand. Raises KafkaError if the controller provides none now."""
        ...

    def take(self) -> int:
        """Return an id. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) if none is at hand, and asks for more."""
        ...


@dataclass(frozen=True, slots=True)
class TransactionDependencies:
    """Objects that all shards of a broker's transaction coordinator share. `config` returns the current one."""

    config: Callable[[], BrokerConfig]
    clock: Clock
    producer_ids: ProducerIdSource
    markers: Markers
    transaction_version: Callable[[], int]
    """Returns the transaction version of the cluster."""
    loads: asyncio.Semaphore
    """The semaphore that limits how many logs are read at the same time."""
    tally: TransactionTally
    slices: DecidingSlices


class TransactionShardEnvironment:
    """The environment of a shard: implements `environment.TransactionEnvironment`."""

    def __init__(self, dependencies: TransactionDependencies) -> None:
        self.timers: TimerService[Decision[TransactionsState, TransactionRecord, None]] = TimerService()
        self.postponed = PostponedDecisions(dependencies.config().add_partitions_to_txn_retry_backoff_max_ms / 1000)
        """Decisions that wait until the last transaction of their transactional id is complete, by id."""
        self.take_producer_id = dependencies.producer_ids.take
        self._dependencies = dependencies

    @property
    def config(self) -> BrokerConfig:
        """Return the configuration in force."""
        return self._dependencies.config()

    @property
    def transaction_version(self) -> int:
        return self._dependencies.transaction_version()

    @property
    def ids_max(self) -> int:
        return self.config.sluicegate_transaction_coordinator_ids_max

    def now_ms(self) -> int:
        return self._dependencies.clock.wall_ms()
