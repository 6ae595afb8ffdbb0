"""The terms of a coordinator on this broker: one for each partition of the coordinator's topic that this broker leads.

A term begins and ends with each leader epoch. A term that fails is started again after a growing delay; of its
decisions only those in the log are kept.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from broker_runtime.coordination.backoff import Backoff
from broker_runtime.coordination.partition_of import partition_of
from broker_runtime.coordination.replicated_log import LeadershipLostError, LedPartition
from broker_runtime.coordination.runtime import TermPhase
from broker_runtime.coordination.term import HostedTerm
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.remembering import remembered
from broker_runtime.slicing.slices import over_slices

log = logging.getLogger(__name__)

H = TypeVar("H", bound=HostedTerm[Any, Any, Any])
IsToLead = Callable[[str, int], bool]
"""The function `replication.led_replicas.LedReplicas.is_to_lead`."""

_RETRY_MAX_S = 30.0
_NOTES_MAX = 3
_IDS_REMEMBERED = 10_000

_partition_of = remembered(_IDS_REMEMBERED)(partition_of)


@dataclass(frozen=True, slots=True)
class Coordinated:
    """The topic of a coordinator, and the words for what it coordinates, for messages."""

    topic: str
    one: str
    many: str
    id_characters_max: int
    """Longest id that a record of the coordinator can have."""


class HostedTerms(Generic[H]):
    """The terms of a coordinator by partition, and the task that runs each.

    All calls are made on the event loop.
    """

    def __init__(
        self,
        coordinated: Coordinated,
        open_term: Callable[[LedPartition], H],
        is_to_lead: IsToLead,
        partitions: Callable[[], Collection[int]],
        count_failure: Callable[[], None],
    ) -> None:
        """`open_term` creates a term that is not loaded. `count_failure` is called for each term that fails.

        `partitions` returns the numbers of the topic's partitions, which are none before the topic exists.
        """
        self.by_partition: dict[int, H] = {}
        self.problems: dict[int, str] = {}
        """The reason why a partition is not served, by partition, if its last term has failed."""
        self._coordinated = coordinated
        self._open_term = open_term
        self._is_to_lead = is_to_lead
        self._partitions = partitions
        self._count_failure = count_failure
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def leads(self, leader: LedPartition) -> None:
        """Begin a term for a partition that this broker leads now, and end the term of an older epoch."""
        self.leads_no_more(leader.index)
        task = asyncio.get_running_loop().create_task(
            self._govern(leader, leader.leader_epoch), name=f"coordinator {leader.topic}-{leader.index}"
        )
        self._tasks[leader.index] = task

    def leads_no_more(self, index: int) -> None:
        """End the term of a partition that this broker no longer leads."""
        task = self._tasks.pop(index, None)
        if task is not None:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        term = self.by_partition.pop(index, None)
        if term is not None:
            term.end()
        self.problems.pop(index, None)

    async def _govern(self, leader: LedPartition, epoch: int) -> None:
        """Run one term after another until the task is cancelled or the leader epoch changes."""
        index, backoff, many = leader.index, Backoff(_RETRY_MAX_S), self._coordinated.many
        while leader.leader_epoch == epoch:
            term = self.by_partition[index] = self._open_term(leader)
            try:
                await term.load()
                self.problems.pop(index, None)
                if backoff.succeeded():
                    log.info("the %s of %s-%d are coordinated again", many, leader.topic, index)
                await term.run()
            except LeadershipLostError as error:
                # The metadata log or the check of the disks determines what follows.
                log.info("%s", error)
                self.problems[index] = str(error)
            except Exception as error:
                self._count_failure()
                self.problems[index] = f"{many} of {leader.topic}-{index} are not coordinated: {error}"
                if backoff.is_news(repr(error)):
                    log.exception("the coordinator of %s-%d failed and is restarted", leader.topic, index)
            finally:
                term.end()
                self._free(term)
            await asyncio.sleep(backoff.failed())

    def _free(self, term: H) -> None:
        name = f"end of a term of {self._coordinated.topic}"
        task = asyncio.get_running_loop().create_task(over_slices(term.free()), name=name)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def term_of(self, coordinated_id: str) -> H:
        """Return this broker's term as the coordinator of an id.

        Raises KafkaError if this broker does not coordinate the id.

        Clients connect as soon as FindCoordinator names this broker, which may be before its replica is opened. Some
        clients repeat a request only on COORDINATOR_LOAD_IN_PROGRESS.
        """
        term = self.find(coordinated_id)
        if term is None:
            index, one = self._partition_of(coordinated_id), self._coordinated.one
            if index is not None and self._awaits(index):
                why = f"this broker is still taking over the {one}; try again"
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, why)
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"this broker does not coordinate the {one}")
        return term

    def awaited(self) -> list[int]:
        """Return the partitions that this broker is about to lead and that have no term yet."""
        return [index for index in self._partitions() if self._awaits(index)]

    def _awaits(self, index: int) -> bool:
        return index not in self.by_partition and self._is_to_lead(self._coordinated.topic, index)

    def find(self, coordinated_id: str) -> H | None:
        """Return the term of an id; None if this broker does not coordinate it."""
        index = self._partition_of(coordinated_id)
        return None if index is None else self.by_partition.get(index)

    def _partition_of(self, coordinated_id: str) -> int | None:
        """Return the partition that stores the id; None if the topic does not exist, or for an id that is too long."""
        partitions = self._partitions()
        if not partitions or len(coordinated_id) > self._coordinated.id_characters_max:
            return None
        return _partition_of(coordinated_id, len(partitions))

    def phases(self) -> Counter[TermPhase]:
        """Return the number of terms in each phase."""
        return Counter(term.phase for term in self.by_partition.values())

    def active(self) -> list[H]:
        """Return the terms that decide requests."""
        return [term for term in self.by_partition.values() if term.phase is TermPhase.ACTIVE]

    def notes(self) -> list[str]:
        """Return a sentence about each partition that is not served (yet), for operators.

        If there are many, only some are described.
        """
        many = self._coordinated.many
        problems = [self.problems[index] for index in sorted(self.problems)]
        more = len(problems) - _NOTES_MAX
        notes = [*problems[:_NOTES_MAX], *([f"{more} more partitions of {many} are not served"] if more > 0 else [])]
        if loading := self.phases()[TermPhase.LOADING]:
            notes.append(f"{many} of {loading} partitions of {self._coordinated.topic} are being loaded")
        return notes

    async def close(self) -> None:
        """End all terms, and wait for their tasks."""
        for index in list(self._tasks):
            self.leads_no_more(index)
        while self._ending:
            await asyncio.gather(*self._ending, return_exceptions=True)
