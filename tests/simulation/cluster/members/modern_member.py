"""A member of a group of KIP-848: one request to join, to report what it owns, and to receive its assignment."""

from typing import Any
from uuid import UUID

from broker_runtime.errors import ErrorCode
from broker_runtime.wire.messages import Entity
from broker_runtime.wire.versions import CONSUMER_GROUP_HEARTBEAT
from tests.simulation.cluster.connection import Unanswered
from tests.simulation.cluster.members.member import BEAT_S, NOT_IN_A_GROUP, REBALANCE_S, Member

_VERSION = 1
_JOINS, _LEAVES, _LEAVES_FOR_A_WHILE = 0, -1, -2


_BEGINS_AGAIN = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_INSTANCE_ID,
)


class ModernMember(Member):
    _id = ""
    _epoch = _JOINS
    _topic_id: UUID | None = None
    _says_all = True
    """Whether the result of its last heartbeat is unknown: a full heartbeat gets the complete assignment."""

    @property
    def id(self) -> str:
        return self._id

    @property
    def epoch(self) -> int:
        return self._epoch

    async def turn(self) -> None:
        if not self._id:
            self._id = str(UUID(int=self.view.random.getrandbits(128)))
        if self._epoch != _JOINS:
            await self.work()
        await self._beat()
        await self.pause(2 * BEAT_S)

    async def _beat(self) -> None:
        sent_s = self.now()
        try:
            answer = await self._ask(self._epoch)
        except Unanswered:
            self._says_all = True
            return
        code = ErrorCode(int(answer.error_code))
        self.heard("a heartbeat", code)
        self._says_all = code != ErrorCode.NONE
        if code == ErrorCode.NONE:
            self._take(answer, sent_s)
        elif code in _BEGINS_AGAIN:
            self._epoch = _JOINS
            self.own((), NOT_IN_A_GROUP, 0.0)

    def _take(self, answer: Entity, sent_s: float) -> None:
        self._epoch = int(answer.member_epoch)
        owned: Any = self.owned
        if answer.assignment is not None:
            owned = [int(index) for topic in answer.assignment.topic_partitions for index in topic.partitions]
            for topic in answer.assignment.topic_partitions:
                self._topic_id = topic.topic_id
        self.own(owned, f"epoch {self._epoch}", sent_s)

    async def _ask(self, epoch: int) -> Entity:
        joins = epoch == _JOINS
        says_all = joins or self._says_all
        content = {
            "group_id": self.ownership.group,
            "member_id": self._id,
            "member_epoch": epoch,
            "instance_id": self.instance,
            "rack_id": None,
            "rebalance_timeout": int(REBALANCE_S * 1000) if says_all else -1,
            "subscribed_topic_names": (self.topic,) if says_all else None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": () if joins else self._owned_fields(),
        }
        return await self.coordinator.ask(CONSUMER_GROUP_HEARTBEAT, _VERSION, content)

    def _owned_fields(self) -> list[dict[str, Any]]:
        return [{"topic_id": self._topic_id, "partitions": sorted(self.owned)}] if self.owned else []

    async def leave(self, *, for_a_while: bool) -> None:
        try:
            await self._ask(_LEAVES_FOR_A_WHILE if for_a_while else _LEAVES)
        except Unanswered:
            return
