"""The groups that this broker coordinates: those in the partitions of __consumer_offsets that it leads.

A term begins and ends with each leader epoch. A term that fails is started again after a growing delay; of its
decisions only those in the log are kept.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar
from uuid import UUID

from broker_runtime.clock import Clock
from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.backoff import Backoff
from broker_runtime.coordination.deciding_slices import DecidingSlices
from broker_runtime.coordination.replicated_log import LeadershipLostError, LedPartition
from broker_runtime.coordination.runtime import TermPhase
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.answers import DeferredAnswer
from broker_runtime.groups.coordinator_metrics import CoordinatorMetrics
from broker_runtime.groups.epoch_ends import EpochEnds
from broker_runtime.groups.members_bytes import members_bytes
from broker_runtime.groups.members_room import MembersRoom
from broker_runtime.groups.partition_of import partition_of
from broker_runtime.groups.push.state.calls import Callers
from broker_runtime.groups.push.state.group import PushGroup
from broker_runtime.groups.record_codec.texts import TEXT_BYTES_MAX
from broker_runtime.groups.shards.shard_environment import ShardDependencies
from broker_runtime.groups.shards.term import GroupDecision, GroupLook, Term
from broker_runtime.groups.state import GroupsState
from broker_runtime.groups.tally import Tally
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import GROUPS_TOPIC

log = logging.getLogger(__name__)

T = TypeVar("T")
IsToLead = Callable[[str, int], bool]
"""`replication.led_replicas.LedReplicas.is_to_lead`."""

_RETRY_MAX_S = 30.0
_LOADS_AT_ONCE = 2
"""Logs that are loaded at the same time. They share one event loop: more of them would only delay each other."""
_THREADS = 1
_NOTES_MAX = 3
_GROUPS_REMEMBERED = 10_000
_REMEMBERED_CHARACTERS_MAX = 256
"""Longest group id whose partition is cached: clients that invent long ids must not fill the memory."""

_partition_of = lru_cache(_GROUPS_REMEMBERED)(partition_of)


class GroupCoordinatorService:
    """Owns a term and its task for each partition of __consumer_offsets that this broker leads.

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
        self._is_to_lead = is_to_lead
        self._image = image
        self._clock = clock
        self._threads = ThreadPoolExecutor(_THREADS, "groups")
        self.tally = Tally()
        self.members_room = MembersRoom(members_bytes)
        self.callers = Callers()
        self.ends = ends
        self._surroundings = ShardDependencies(
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
        self.terms: dict[int, Term] = {}
        """Terms by partition."""
        self.problems: dict[int, str] = {}
        """The reason why the groups of a partition are not served, by partition, if its last term has failed."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def leads(self, leader: LedPartition) -> None:
        self.leads_no_more(leader.topic, leader.index)
        task = asyncio.get_running_loop().create_task(
            self._govern(leader, leader.leader_epoch), name=f"coordinator {leader.topic}-{leader.index}"
        )
        self._tasks[leader.index] = task

    def leads_no_more(self, topic: str, index: int) -> None:
        del topic
        task = self._tasks.pop(index, None)
        if task is not None:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        term = self.terms.pop(index, None)
        if term is not None:
            term.end()
        self.problems.pop(index, None)

    async def _govern(self, leader: LedPartition, epoch: int) -> None:
        """Run one term after another until the task is cancelled or the leader epoch changes."""
        index, backoff = leader.index, Backoff(_RETRY_MAX_S)
        while leader.leader_epoch == epoch:
            term = self.terms[index] = Term(self._surroundings, leader)
            try:
                await term.load()
                self.problems.pop(index, None)
                if backoff.succeeded():
                    log.info("the groups of %s-%d are coordinated again", leader.topic, index)
                await term.run()
            except LeadershipLostError as error:
                # The metadata log or the check of the disks determines what follows.
                log.info("%s", error)
                self.problems[index] = str(error)
            except Exception as error:
                self.tally.failures += 1
                self.problems[index] = f"groups of {leader.topic}-{index} are not coordinated: {error}"
                if backoff.is_news(repr(error)):
                    log.exception("the coordinator of %s-%d failed and is restarted", leader.topic, index)
            finally:
                term.end()
            await asyncio.sleep(backoff.failed())

    def topics_changed(self, changed: Collection[str], removed: Mapping[str, UUID]) -> None:
        """Notify all active terms of topics that were created, resized or deleted.

        `removed` has the ids of deleted topics.
        """
        for term in self.terms.values():
            if term.phase is TermPhase.ACTIVE:
                term.shard.topics_changed(changed, removed)

    def term_of(self, group_id: str) -> Term:
        """Return the term of the group.

        Raises KafkaError if this broker does not coordinate the group, or if the id is longer than a record allows.

        Clients connect as soon as FindCoordinator names this broker, which may be before its replica is opened. Some
        clients repeat a request only on COORDINATOR_LOAD_IN_PROGRESS.
        """
        if len(group_id) > TEXT_BYTES_MAX:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, f"a group id may have at most {TEXT_BYTES_MAX} bytes")
        term = self._find(group_id)
        if term is None:
            index = self._partition_of(group_id)
            if index is not None and self._awaits(index):
                why = "this broker is still taking over the group; try again"
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, why)
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "this broker does not coordinate the group")
        return term

    def awaited(self) -> list[int]:
        """Partitions that this broker is about to lead and that have no term yet."""
        topic = self._image.topics.get(GROUPS_TOPIC)
        return [] if topic is None else [index for index in topic.partitions if self._awaits(index)]

    def _awaits(self, index: int) -> bool:
        return index not in self.terms and self._is_to_lead(GROUPS_TOPIC, index)

    def _find(self, group_id: str) -> Term | None:
        index = self._partition_of(group_id)
        return None if index is None else self.terms.get(index)

    def _partition_of(self, group_id: str) -> int | None:
        topic = self._image.topics.get(GROUPS_TOPIC)
        if topic is None or len(group_id) > TEXT_BYTES_MAX:
            return None
        look = _partition_of if len(group_id) <= _REMEMBERED_CHARACTERS_MAX else partition_of
        return look(group_id, len(topic.partitions))

    def at_once(self, group_id: str, look: GroupLook[T]) -> T | None:
        """Return the result of `look` if the state is durable and no request waits.

        None: the request must be submitted.
        """
        term = self._find(group_id)
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

    def figures(self) -> CoordinatorMetrics:
        phases = Counter(term.phase for term in self.terms.values())
        failed, loading, active = len(self.problems), phases[TermPhase.LOADING], phases[TermPhase.ACTIVE]
        states = list(self.states())
        return CoordinatorMetrics(
            loading,
            active,
            failed,
            sum(len(state.groups) for state in states),
            sum(state.offsets.count for state in states),
        )

    def notes(self) -> list[str]:
        """Return a sentence for each partition that is not served (yet), for operators.

        If there are many, only some.
        """
        problems = [self.problems[index] for index in sorted(self.problems)]
        more = len(problems) - _NOTES_MAX
        notes = [*problems[:_NOTES_MAX], *([f"{more} more partitions of groups are not served"] if more > 0 else [])]
        if loading := self.figures().loading:
            notes.append(f"groups of {loading} partitions of {GROUPS_TOPIC} are being loaded")
        return notes

    def states(self) -> Iterator[GroupsState]:
        """Yield the state of each loaded partition after its last decision, durable or not: for figures."""
        for term in list(self.terms.values()):
            if term.phase is TermPhase.ACTIVE:
                yield term.state

    async def close(self) -> None:
        for index in list(self._tasks):
            self.leads_no_more(GROUPS_TOPIC, index)
        await asyncio.gather(*self._ending, return_exceptions=True)
        await self.ends.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def is_push_group(groups: GroupCoordinatorService, group_id: str) -> bool:
    """Whether this broker coordinates the group and the group uses the push protocol."""
    term = groups._find(group_id)
    return term is not None and isinstance(term.state.groups.get(group_id), PushGroup)
