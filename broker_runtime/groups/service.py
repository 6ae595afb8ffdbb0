"""The groups that this broker coordinates: those in the partitions of __consumer_offsets that it leads."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar
from uuid import UUID

from broker_runtime.clock import Clock
from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.deciding_slices import DecidingSlices
from broker_runtime.coordination.hosted_terms import Coordinated, HostedTerms, IsToLead
from broker_runtime.coordination.replicated_log import LedPartition
from broker_runtime.coordination.runtime import TermPhase
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.answers import DeferredAnswer
from broker_runtime.groups.epoch_ends import EpochEnds
from broker_runtime.groups.members_bytes import members_bytes
from broker_runtime.groups.members_room import MembersRoom
from broker_runtime.groups.offsets.commit import end_transaction
from broker_runtime.groups.push.state.calls import Callers
from broker_runtime.groups.push.state.group import PushGroup
from broker_runtime.groups.record_codec.texts import TEXT_BYTES_MAX
from broker_runtime.groups.shards.shard_environment import ShardDependencies
from broker_runtime.groups.shards.term import GroupDecision, GroupLook, Term
from broker_runtime.groups.state import GroupsState
from broker_runtime.groups.tally import CoordinatorMetrics, Tally
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from kafka_bytes.control import Marker

T = TypeVar("T")

_LOADS_AT_ONCE = 2
"""Logs that are loaded at the same time. They share one event loop: more of them would only delay each other."""
_THREADS = 1
_COORDINATED = Coordinated(GROUPS_TOPIC, "group", "groups", TEXT_BYTES_MAX)


class GroupCoordinatorService:
    """The group coordinator of a broker: a term and its task for each led partition of __consumer_offsets.

    Implements `replication.led_replicas.LeadershipObserver`. All calls are made on the event loop.
    """

    def __init__(
        self,
        is_to_lead: IsToLead,
        config: Callable[[], BrokerConfig],
        image: MetadataImage,
        clock: Clock,
        ends: EpochEnds,
    ) -> None:
        """`config` returns the configuration in force. `close` also closes `ends`."""
        self._threads = ThreadPoolExecutor(_THREADS, "groups")
        self.tally = Tally()
        self.members_room = MembersRoom(members_bytes)
        self.callers = Callers()
        self.ends = ends
        surroundings = ShardDependencies(
            config,
            image,
            clock,
            self._threads,
            asyncio.Semaphore(_LOADS_AT_ONCE),
            self.tally,
            self.callers,
            DecidingSlices(),
            ends,
            self.members_room,
        )
        self.hosted = HostedTerms(
            _COORDINATED,
            partial(Term, surroundings),
            is_to_lead,
            partial(image.partitions_of, GROUPS_TOPIC),
            self.tally.count_failure,
        )
        self.terms = self.hosted.by_partition
        self.problems = self.hosted.problems

    def leads(self, leader: LedPartition) -> None:
        self.hosted.leads(leader)

    def leads_no_more(self, topic: str, index: int) -> None:
        del topic
        self.hosted.leads_no_more(index)

    def topics_changed(self, changed: Collection[str], removed: Mapping[str, UUID]) -> None:
        """Notify all active terms of topics that were created, resized or deleted.

        `removed` has the ids of deleted topics.
        """
        for term in self.hosted.active():
            term.shard.topics_changed(changed, removed)

    def term_of(self, group_id: str) -> Term:
        """Return this broker's term as the coordinator of a group.

        Raises KafkaError if this broker does not coordinate the group, or if the id is longer than a record allows.
        """
        if len(group_id) > TEXT_BYTES_MAX:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, f"a group id may have at most {TEXT_BYTES_MAX} bytes")
        return self.hosted.term_of(group_id)

    def at_once(self, group_id: str, look: GroupLook[T]) -> T | None:
        """Return the result of `look` if the state is durable and no request waits.

        None means that the request must be submitted.
        """
        term = self.hosted.find(group_id)
        return None if term is None else term.at_once(look)

    async def submit(self, group_id: str, decide: GroupDecision[T]) -> T:
        """Return the answer of the decision once its records are durable.

        Raises KafkaError with a code that members understand.
        """
        return await self.term_of(group_id).submit(decide)

    async def submit_later(self, group_id: str, decide: GroupDecision[DeferredAnswer[T]]) -> T:
        """Return the answer of the decision, which may wait for other members without a time limit.

        Raises KafkaError.
        """
        return await self.term_of(group_id).submit_later(decide)

    async def end_transaction(self, index: int, marker: Marker) -> None:
        """Write a marker to partition `index` of __consumer_offsets, and return once it is durable.

        It commits or drops the offsets of the producer's transaction. Raises KafkaError: the codes of `submit`, and
        INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for a marker that is out of date.
        """
        term = self.terms.get(index)
        if term is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"this broker does not lead {GROUPS_TOPIC}-{index}")
        await term.submit(lambda state, environment: (end_transaction(marker), None))

    def figures(self) -> CoordinatorMetrics:
        phases, states = self.hosted.phases(), list(self.states())
        return CoordinatorMetrics(
            phases[TermPhase.LOADING],
            phases[TermPhase.ACTIVE],
            len(self.problems),
            sum(len(state.groups) for state in states),
            sum(state.offsets.count for state in states),
        )

    def notes(self) -> list[str]:
        """Return a sentence about each partition that is not served (yet), for operators.

        If there are many, only some are described.
        """
        return self.hosted.notes()

    def states(self) -> Iterator[GroupsState]:
        """Yield the state of each loaded partition after its last decision, durable or not: for metrics."""
        for term in self.hosted.active():
            yield term.state

    async def close(self) -> None:
        await self.hosted.close()
        await self.ends.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def is_push_group(groups: GroupCoordinatorService, group_id: str) -> bool:
    """Whether this broker coordinates the group and the group uses the push protocol."""
    term = groups.hosted.find(group_id)
    return term is not None and isinstance(term.state.groups.get(group_id), PushGroup)
