"""A broker in memory that coordinates transactional ids, with the parts that handlers of their APIs use.

async with TransactionBroker() as node:
    await node.lead_transactions()
    answer = await node.ask(end_txn.API, 4, {...})
"""

import asyncio
from collections.abc import Callable
from typing import Self, TypeVar

from broker_runtime.config import TopicConfig
from broker_runtime.coordination.runtime import TermPhase
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.topics import PartitionRecord
from broker_runtime.metadata.topic_names import TRANSACTIONS_TOPIC
from broker_runtime.storage.records.batch import Record, iter_batches, iter_records
from broker_runtime.transactions.ids.codec import decode
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.seam import EndedTransaction, MarkerFigures, MarkersListener
from broker_runtime.transactions.service import TransactionCoordinatorService
from tests.support.groups.coordinating_broker import ME, CoordinatingBroker

T = TypeVar("T")
_ITERATIONS_MAX = 100_000


class RecordedMarkers:
    """A dispatch of markers that writes none: a test says when a partition has its marker."""

    def __init__(self) -> None:
        self.sent: list[tuple[EndedTransaction, MarkersListener]] = []
        self.dropped: list[int] = []

    def send(self, ended: EndedTransaction, listener: MarkersListener) -> None:
        self.sent.append((ended, listener))

    def drop(self, coordinator_partition: int) -> None:
        self.dropped.append(coordinator_partition)

    def figures(self) -> MarkerFigures:
        return MarkerFigures(len(self.sent))

    async def close(self) -> None:
        self.sent.clear()

    def write_all(self) -> None:
        """Report all markers that were sent as written."""
        sent, self.sent = self.sent, []
        for ended, listener in sent:
            for partition in ended.partitions:
                listener.partition_done(ended, partition)


class FewProducerIds:
    """A source of the next `left` producer ids."""

    def __init__(self, left: int = 1_000) -> None:
        self.next = 4_000
        self.left = left

    async def ready(self) -> None:
        self._check()

    def take(self) -> int:
        self._check()
        self.left -= 1
        self.next += 1
        return self.next - 1

    def _check(self) -> None:
        if not self.left:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer ids are left")


class TransactionBroker(CoordinatingBroker):
    """Broker 1 of CoordinatingBroker, with one partition of `__transaction_state` once it is to lead it."""

    markers: RecordedMarkers
    transactions: TransactionCoordinatorService
    transaction_version = 2
    offloaded = 0
    """How often work was given to another thread."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.markers, self.ids = RecordedMarkers(), FewProducerIds()
        self.transactions = TransactionCoordinatorService(
            self.replicas.led_replicas.is_to_lead,
            lambda: self.settings.config,
            self.image,
            self.clock,
            self.ids,
            self.markers,
            lambda: self.transaction_version,
        )
        self.replicas.led_replicas.observers[TRANSACTIONS_TOPIC] = self.transactions
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.replicas.stop()
        await self.transactions.close()
        await self.groups.close()

    def offload(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Run the work in another thread."""
        self.offloaded += 1
        return asyncio.get_running_loop().run_in_executor(None, work)

    def elect_transactions(self, leader: int) -> None:
        """Let the controller elect a leader of `__transaction_state-0` in a new epoch."""
        if TRANSACTIONS_TOPIC not in self.image.topics:
            self.metadata.topic(TRANSACTIONS_TOPIC, self._replicas)
        topic = self.image.topics[TRANSACTIONS_TOPIC]
        part, self._epoch = topic.partitions[0], self._epoch + 1
        self.metadata.write(
            PartitionRecord(topic.id, 0, part.replicas, part.isr, leader, self._epoch, part.partition_epoch + 1)
        )
        list(self.replicas.apply_partitions(topic.id, [0], TopicConfig()))

    async def lead_transactions(self) -> None:
        """Make this broker lead the partition in a new epoch, and load it."""
        self.elect_transactions(ME)
        await self.until(lambda: self.phase is TermPhase.ACTIVE)

    @property
    def phase(self) -> TermPhase | None:
        term = self.transactions.hosted.by_partition.get(0)
        return None if term is None else term.phase

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(_ITERATIONS_MAX):
            if condition():
                return
            await asyncio.sleep(0)
        raise AssertionError(f"the condition did not come true: {self.transactions.hosted.problems}")

    def _records(self) -> list[Record]:
        log = self.replicas.led_replicas.led(TRANSACTIONS_TOPIC, 0).log
        region = log.read(log.log_start_offset, 1 << 20, min_one=True, up_to=log.log_end_offset)
        batches = () if region is None else iter_batches(region.read())
        return [item for _, batch in batches for item in iter_records(batch)]

    def raw(self) -> list[bytes]:
        """Return the values of all records of the log; empty bytes for a tombstone."""
        return [item.value or b"" for item in self._records()]

    def written(self) -> list[TransactionRecord | None]:
        """Return all records of the log."""
        return [decode(item.key, item.value) for item in self._records()]

    def states(self) -> list[str]:
        """Return the states of the written records in order; an empty text for a tombstone."""
        return [each.transaction.state.shown if each and each.transaction else "" for each in self.written()]
