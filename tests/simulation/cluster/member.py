"""Members of groups at the level of the protocol. They own partitions and commit offsets, and read no records.

What both kinds have in common is here: a member is sure of its partitions for as long as its session cannot have ended,
looks what is committed for each partition that it gets, and commits one more from there on.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from broker_runtime.errors import ErrorCode
from broker_runtime.wire.versions import OFFSET_COMMIT, OFFSET_FETCH
from tests.simulation.cluster.commits import commit_fields, fetch_fields
from tests.simulation.cluster.connection import ClusterView, Unanswered
from tests.simulation.cluster.coordinator import Coordinator
from tests.simulation.cluster.ownership import Ownership

SESSION_S = 3.0
REBALANCE_S = 4.0
BEAT_S = 0.3
VERSION_OF_OFFSETS = 9
"""With it both kinds can say in which generation or epoch they are."""


@dataclass(frozen=True, slots=True)
class Around:
    """What members of one group share."""

    now: Callable[[], float]
    note: Callable[[str], None]
    partitions: Callable[[], int]
    """How many the topic has."""
    moment: Callable[[str, str], None]
    """Told what a member has just been told or has answered, and by which host."""


class Member:
    """One life of a member: it leaves at its end, or is gone without a word."""

    def __init__(
        self,
        name: str,
        ownership: Ownership,
        topic: str,
        view: ClusterView,
        surroundings: "Around",
        instance: str | None = None,
    ) -> None:
        """`instance` is that of a static member, which has many lives and owns in all of them what it had (KIP-345)."""
        self.now, self._note, self.partitions = surroundings.now, surroundings.note, surroundings.partitions
        self._moment = surroundings.moment
        self.name, self.instance = name, instance
        self.owner = name if instance is None else instance
        """Who owns, to others."""
        self.session_s = SESSION_S
        self.term = NOT_IN_A_GROUP
        self.owned: frozenset[int] = frozenset()
        self.ownership, self.topic, self.view = ownership, topic, view
        self.coordinator = Coordinator(view, ownership.group)
        self.quiet = False
        """Whether it commits no more."""
        self._positions: dict[int, int] = {}

    async def live(self, is_over: Callable[[], bool], *, leaves: bool) -> None:
        # What a life before this had is nobody's when this one joins and says so.
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
        """A static member that goes for a while is to have its partitions again."""
        raise NotImplementedError

    def go(self) -> None:
        """It is no more."""
        self.coordinator.hang_up()

    def let_go_s(self) -> float | None:
        """Since when the coordinator has given it up, though it may not know that."""
        return None

    @property
    def epoch(self) -> int:
        """The generation, or the epoch, to commit with."""
        raise NotImplementedError

    @property
    def id(self) -> str:
        raise NotImplementedError

    def own(self, partitions: Iterable[int], term: str, sent_s: float) -> None:
        """As an answer says to what was sent then."""
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
        """Look what is committed for what is new, or commit one more of everything. Not while it cannot be sure."""
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
