"""The transactional ids that this broker coordinates, by the partitions of `__transaction_state` that it leads."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar

from broker_runtime.clock import Clock
from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.deciding_slices import DecidingSlices
from broker_runtime.coordination.hosted_terms import Coordinated, HostedTerms, IsToLead
from broker_runtime.coordination.replicated_log import LedPartition
from broker_runtime.coordination.runtime import TermPhase
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import TRANSACTIONS_TOPIC
from broker_runtime.slicing.slices import over_slices
from broker_runtime.slicing.steps import at_once
from broker_runtime.transactions.coordinator_figures import TransactionFigures
from broker_runtime.transactions.decisions.adding import add_partitions, verified
from broker_runtime.transactions.decisions.ending import EndedProducer, EndRequest, end_transaction
from broker_runtime.transactions.decisions.producers import (
    InitializedProducer,
    InitRequest,
    check_timeout,
    init_producer,
)
from broker_runtime.transactions.decisions.waiting import TransactionDecision, once_complete
from broker_runtime.transactions.environment import TransactionEnvironment
from broker_runtime.transactions.ids.codec import ID_BYTES_MAX
from broker_runtime.transactions.ids.metadata import NONE, Transaction
from broker_runtime.transactions.ids.paced import paced
from broker_runtime.transactions.ids.partition_set import LONG
from broker_runtime.transactions.ids.state import TransactionsState
from broker_runtime.transactions.ids.states import TRANSACTIONS_V2
from broker_runtime.transactions.seam import Markers, TopicPartition
from broker_runtime.transactions.shard_environment import ProducerIdSource, TransactionDependencies
from broker_runtime.transactions.tally import TransactionTally
from broker_runtime.transactions.term import TransactionTerm

T = TypeVar("T")

_LOADS_AT_ONCE = 2
"""Logs that are loaded at the same time. They share one event loop: more of them would only delay each other."""
_COORDINATED = Coordinated(TRANSACTIONS_TOPIC, "transactional id", "transactional ids", ID_BYTES_MAX)


class TransactionCoordinatorService:
    """The transaction coordinator of a broker: a term for each led partition of `__transaction_state`.

    Implements `replication.led_replicas.LeadershipObserver` and `seam.Verifying`. All calls are made on the event loop.
    Its methods raise KafkaError with a code that clients understand.
    """

    def __init__(
        self,
        is_to_lead: IsToLead,
        config: Callable[[], BrokerConfig],
        image: MetadataImage,
        clock: Clock,
        producer_ids: ProducerIdSource,
        markers: Markers,
        transaction_version: Callable[[], int],
    ) -> None:
        """`config` returns the configuration in force, `transaction_version` the finalized level of the feature."""
        self.tally = TransactionTally()
        self._config = config
        self._producer_ids = producer_ids
        self.markers = markers
        dependencies = TransactionDependencies(
            config,
            clock,
            producer_ids,
            markers,
            transaction_version,
            asyncio.Semaphore(_LOADS_AT_ONCE),
            self.tally,
            DecidingSlices(),
        )
        self.hosted = HostedTerms(
            _COORDINATED,
            partial(TransactionTerm, dependencies),
            is_to_lead,
            partial(image.partitions_of, TRANSACTIONS_TOPIC),
            self.tally.count_failure,
        )

    def leads(self, leader: LedPartition) -> None:
        self.hosted.leads(leader)

    def leads_no_more(self, topic: str, index: int) -> None:
        del topic
        self.hosted.leads_no_more(index)

    def _term_of(self, transactional_id: str) -> TransactionTerm:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        if len(transactional_id.encode()) > ID_BYTES_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"a transactional id may have at most {ID_BYTES_MAX} bytes")
        return self.hosted.term_of(transactional_id)

    async def init_producer(
        self, transactional_id: str, timeout_ms: int, producer_id: int = NONE, producer_epoch: int = NONE
    ) -> InitializedProducer:
        """Give the transactional id a producer with an epoch that fences all earlier ones.

        A producer that has an id and an epoch already passes both.
        """
        check_timeout(timeout_ms, self._config().transaction_max_timeout_ms)
        term = self._term_of(transactional_id)
        request = InitRequest(transactional_id, timeout_ms, producer_id, producer_epoch)
        # Most requests need no producer id: the decision itself refuses those that do.
        with suppress(KafkaError):
            await self._producer_ids.ready()
        return await self._submit_once_complete(
            term, transactional_id, lambda state, environment: paced(init_producer(state, environment, request))
        )

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        version: int = 0,
    ) -> None:
        """Add the partitions to the producer's transaction. `version` is the transaction version of the request."""
        arguments = transactional_id, producer_id, producer_epoch, partitions, version
        term = self._term_of(transactional_id)
        await self._submit_once_complete(
            term, transactional_id, lambda state, environment: add_partitions(state, environment, *arguments)
        )

    async def _submit_once_complete(
        self, term: TransactionTerm, transactional_id: str, decide: TransactionDecision[T]
    ) -> T:
        """Submit a decision that waits, for a short time, until the id's last transaction is complete."""
        limit_ms = self._config().add_partitions_to_txn_retry_backoff_max_ms
        return await term.submit(partial(once_complete, decide, transactional_id, limit_ms))

    async def end_transaction(self, request: EndRequest) -> EndedProducer:
        """Decide the end of a transaction. The answer comes before its markers are written."""
        term = self._term_of(request.transactional_id)
        return await term.submit(lambda state, environment: paced(end_transaction(state, environment, request)))

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        add: bool,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Return a code for each partition; with `add`, add the partitions to the transaction first.

        Raises no KafkaError: a refusal is the code of each partition.
        """
        try:
            if add:
                await self.add_partitions(transactional_id, producer_id, producer_epoch, partitions, TRANSACTIONS_V2)
                return dict.fromkeys(partitions, ErrorCode.NONE)
            found = await self._durable(transactional_id)
            steps = verified(found, producer_id, producer_epoch, partitions)
            return at_once(steps) if len(partitions) <= LONG else await over_slices(steps)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)

    async def describe(self, transactional_id: str) -> Transaction:
        """Return the durable state of the id. Raises KafkaError, TRANSACTIONAL_ID_NOT_FOUND for an unknown one."""
        found = await self._durable(transactional_id)
        if found is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "the transactional id is not known")
        return found

    async def _durable(self, transactional_id: str) -> Transaction | None:
        """Return the state of the id once it is durable; None for an unknown one. Raises KafkaError."""
        term = self._term_of(transactional_id)

        def look(state: TransactionsState, _: TransactionEnvironment) -> tuple[Transaction | None]:
            return (state.transactions.get(transactional_id),)

        found = term.at_once(look)
        if found is None:
            found = await term.submit(lambda state, environment: ((), look(state, environment)))
        return found[0]

    def is_loading(self) -> bool:
        """Return whether a partition that this broker leads is not served yet."""
        return bool(self.hosted.awaited()) or any(
            term.phase is TermPhase.LOADING for term in self.hosted.by_partition.values()
        )

    def states(self) -> Iterator[TransactionsState]:
        """Yield the state of each loaded partition after its last decision, durable or not: for tools and metrics."""
        for term in self.hosted.active():
            yield term.state

    def figures(self) -> TransactionFigures:
        """Return the numbers of partitions by phase, and of transactional ids."""
        phases, states = self.hosted.phases(), list(self.states())
        return TransactionFigures(
            phases[TermPhase.LOADING],
            phases[TermPhase.ACTIVE],
            len(self.hosted.problems),
            sum(len(state.transactions) for state in states),
            sum(len(state.ongoing) for state in states),
        )

    def notes(self) -> list[str]:
        """Return a sentence about each partition that is not served (yet), for operators."""
        return self.hosted.notes()

    async def close(self) -> None:
        """End all terms, wait for their tasks, and stop sending markers."""
        await self.hosted.close()
        await self.markers.close()
