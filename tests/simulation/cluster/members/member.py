"""Members of groups at the level of the protocol. They own partitions and commit offsets, and read no records.

This module has the common part of both kinds. A member is sure of its partitions as long as its session cannot have
ended. It reads the committed offset of each partition that it gets, and commits one more from there on.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from broker_runtime.errors import ErrorCode
from broker_runtime.wire.versions import OFFSET_COMMIT, OFFSET_FETCH
from tests.simulation.cluster.connection import ClusterView, Unanswered
from tests.simulation.cluster.members.commits import commit_fields, fetch_fields
from tests.simulation.cluster.members.coordinator import Coordinator
from tests.simulation.cluster.members.ownership import Ownership

SESSION_S = 3.0
REBALANCE_S = 4.0
BEAT_S = 0.3
VERSION_OF_OFFSETS = 9
"""The version in which both kinds can name their generation or epoch."""


@dataclass(frozen=True, slots=True)
class Around:
    """The parts that members of one group share."""

    now: Callable[[], float]
    note: Callable[[str], None]
    partitions: Callable[[], int]
    """Number of partitions of the topic."""
    moment: Callable[[str, str], None]
    """Called with what a member has just received or answered, and with the coordinator's host."""


class Member:
    """One life of a member: at its end it leaves, or disappears without notice."""

    def __init__(
        self,
        name: str,
        ownership: Ownership,
        topic: str,
        view: ClusterView,
        surroundings: "Around",
        instance: str | None = None,
    ) -> None:
        """`instance` is that of a static member, which keeps its partitions over many lives (KIP-345)."""
        self.now, self._note, self.partitions = surroundings.now, surroundings.note, surroundings.partitions
        self._moment = surroundings.moment
        self.name, self.instance = name, instance
        self.owner = name if instance is None else instance
        """Name of the owner for other members."""
        self.session_s = SESSION_S
        self.term = NOT_IN_A_GROUP
        self.owned: frozenset[int] = frozenset()
        self.ownership, self.topic, self.view = ownership, topic, view
        self.coordinator = Coordinator(view, ownership.group)
        self.quiet = False
        """Whether the member makes no more commits."""
        self._positions: dict[int, int] = {}

    async def live(self, is_over: Callable[[], bool], *, leaves: bool) -> None:
        # Partitions of an earlier life have no owner once this one joins and says so.
        self.ownership.release(self.owner, range(self.partitions()))
        while not is_over():
            await self.turn()
        if leaves:
            for_a_while = self.instance is not None and self.view.random.random() < 0.7
            if not for_a_while:
                self.own((), self.term, 0.0)
            await self.leave(for_a_while=for_a_while)
        self.go()

    async def turn(self) -> None:
        raise NotImplementedError

    async def leave(self, *, for_a_while: bool) -> None:
        """Leave the group; a static member that leaves for a while will get its partitions again."""
        raise NotImplementedError

    def go(self) -> None:
        """End this life."""
        self.coordinator.hang_up()

    def let_go_s(self) -> float | None:
        """Time at which the coordinator dropped it, though it may not know that; None if it was not dropped."""
        return None

    @property
    def epoch(self) -> int:
        """The generation, or the epoch, to commit with."""
        raise NotImplementedError

    @property
    def id(self) -> str:
        raise NotImplementedError

    def own(self, partitions: Iterable[int], term: str, sent_s: float) -> None:
        """Own the partitions in an answer to a request that was sent at `sent_s`."""
        now_owned = frozenset(partitions)
        gone = self.owned - now_owned
        self.ownership.release(self.owner, gone)
        for partition in gone:
            self._positions.pop(partition, None)
        if (now_owned, term) != (self.owned, self.term):
            self._note(f"{self.name} owns {sorted(now_owned)} in {term}")
        self.owned, self.term = now_owned, term
        self.ownership.claim(self.owner, term, sorted(now_owned), sent_s + self.session_s, self.let_go_s)

    async def work(self) -> None:
        """Read the committed offsets of new partitions, or commit one more of all.

        Does nothing while it cannot be sure.
        """
        new = tuple(sorted(self.owned - self._positions.keys()))
        if new:
            await self._look(new)
        elif self.owned and not self.quiet and self.view.random.random() < 0.5:
            await self._commit()

    def _is_sure(self) -> bool:
        holders = self.ownership.holders()
        return all(partition in holders and holders[partition].member == self.owner for partition in self.owned)

    async def _look(self, partitions: tuple[int, ...]) -> None:
        content = fetch_fields(self.ownership.group, self.topic, partitions, self.id, self.epoch)
        owned = self.owned
        try:
            answer = await self.coordinator.ask(OFFSET_FETCH, VERSION_OF_OFFSETS, content)
        except Unanswered:
            return
        code = ErrorCode(int(answer.groups[0].error_code))
        self.heard("a look", code)
        if code != ErrorCode.NONE or owned != self.owned or not self._is_sure():
            return
        for part in answer.groups[0].topics[0].partitions:
            if int(part.error_code) == ErrorCode.NONE:
                self.ownership.is_committed(int(part.partition_index), int(part.committed_offset))
                self._positions[int(part.partition_index)] = int(part.committed_offset)

    async def _commit(self) -> None:
        offsets = {partition: self._positions[partition] + 1 for partition in sorted(self.owned)}
        content = commit_fields(self.ownership.group, self.topic, offsets, self.epoch, self.id, self.instance)
        if not self._is_sure():
            return
        first = {partition: self.ownership.commit_begins(partition, offset) for partition, offset in offsets.items()}
        for partition, offset in offsets.items():
            self.ownership.has_read(partition, offset - 1, offset)
        try:
            answer = await self.coordinator.ask(OFFSET_COMMIT, VERSION_OF_OFFSETS, content)
        except Unanswered:
            return
        for part in answer.topics[0].partitions:
            code, partition = ErrorCode(int(part.error_code)), int(part.partition_index)
            self.heard("a commit", code)
            if code == ErrorCode.NONE and partition in self._positions and self._is_sure():
                self._positions[partition] = offsets[partition]
                self.ownership.commit_is_acknowledged(partition, offsets[partition], first=first[partition])

    def heard(self, what: str, code: ErrorCode) -> None:
        self.coordinator.note(code)
        if code != ErrorCode.NONE:
            self._note(f"{self.name}: {what} is answered by {code.name}")

    async def pause(self, most_s: float = 0.2) -> None:
        await asyncio.sleep(self.view.random.uniform(0.02, most_s))


NOT_IN_A_GROUP = "no generation"
