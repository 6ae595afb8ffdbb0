"""A member of a classic group: joins, gets partitions from the leader of its generation, and sends heartbeats.

See KIP-62.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from broker_runtime.errors import ErrorCode
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.versions import FORMATS, HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from tests.simulation.cluster.connection import Unanswered
from tests.simulation.cluster.members.member import BEAT_S, NOT_IN_A_GROUP, REBALANCE_S, SESSION_S, Member

_JOIN_VERSION, _SYNC_VERSION, _HEARTBEAT_VERSION, _LEAVE_VERSION = 9, 5, 3, 3
_PROTOCOL = "range"
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


def subscription(topic: str) -> bytes:
    """A subscription in version 0 of the consumers' own format."""
    return _INT16.pack(0) + _INT32.pack(1) + _text(topic) + _INT32.pack(-1)


def assignment(topic: str, partitions: Sequence[int]) -> bytes:
    indexes = b"".join(map(_INT32.pack, partitions))
    return _INT16.pack(0) + _INT32.pack(1) + _text(topic) + _INT32.pack(len(partitions)) + indexes + _INT32.pack(-1)


def assigned_in(content: bytes) -> list[int]:
    """Assigned partitions of one topic; empty without an assignment."""
    if not content or not _INT32.unpack_from(content, 2)[0]:
        return []
    at = 6
    at += 2 + _INT16.unpack_from(content, at)[0]
    (count,) = _INT32.unpack_from(content, at)
    return list(struct.unpack_from(f">{count}i", content, at + 4))


def _text(text: str) -> bytes:
    return _INT16.pack(len(text)) + text.encode()


_JOINS_AGAIN = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
)


class ClassicMember(Member):
    _id = ""
    _generation = -1
    _leads = False
    """The leader checks whether the topic has more partitions than it last assigned."""

    @property
    def id(self) -> str:
        return self._id

    @property
    def epoch(self) -> int:
        return self._generation

    async def turn(self) -> None:
        if self._leads and self.ownership.shared != self.partitions():
            self._generation = -1
        if self._generation < 0:
            # A member that joins has given up what it owned.
            self.own((), NOT_IN_A_GROUP, 0.0)
            await self._join()
        else:
            await self._beat()
            await self.work()
            await self.pause(2 * BEAT_S)

    async def _join(self) -> None:
        answer = await self._asked(JOIN_GROUP, _JOIN_VERSION, self._join_fields(), SESSION_S + 2 * REBALANCE_S)
        if answer is None:
            return
        code = ErrorCode(int(answer.error_code))
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self._id = str(answer.member_id)
        elif code != ErrorCode.NONE:
            self._forget_id(code)
            await self.pause()
        else:
            self._id = str(answer.member_id)
            self._leads = str(answer.leader) == self._id
            shares = self._leads and not answer.skip_assignment
            given = self._shared(answer.members) if shares else {}
            await self._sync(int(answer.generation_id), given)

    def _join_fields(self) -> Fields:
        return {
            "group_id": self.ownership.group,
            "session_timeout": int(SESSION_S * 1000),
            "rebalance_timeout": int(REBALANCE_S * 1000),
            "member_id": self._id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocols": [{"name": _PROTOCOL, "metadata": subscription(self.topic)}],
            "reason": None,
        }

    async def _sync(self, generation: int, given: Mapping[str, bytes]) -> None:
        content = self._in(generation) | {
            "protocol_type": "consumer",
            "protocol_name": _PROTOCOL,
            "assignments": [{"member_id": member, "assignment": each} for member, each in given.items()],
        }
        answer = await self._asked(SYNC_GROUP, _SYNC_VERSION, content, REBALANCE_S)
        if answer is None:
            return
        code = ErrorCode(int(answer.error_code))
        if code == ErrorCode.NONE:
            self._generation = generation
            # As in Apache Kafka, a SyncGroup whose assignment was already there renews no session.
            self.own(assigned_in(answer.assignment), f"generation {generation}", 0.0)
        else:
            self._forget_id(code)
            await self.pause()

    async def _beat(self) -> None:
        sent_s = self.now()
        answer = await self._asked(HEARTBEAT, _HEARTBEAT_VERSION, self._in(self._generation), SESSION_S)
        if answer is None:
            return
        code = ErrorCode(int(answer.error_code))
        if code == ErrorCode.NONE:
            self.own(self.owned, self.term, sent_s)
        elif code in _JOINS_AGAIN:
            self._generation = -1
            self._forget_id(code)

    async def leave(self, *, for_a_while: bool) -> None:
        """Leave the group; classic groups have no temporary leave, and a static member then sends nothing."""
        if for_a_while:
            return
        members = [{"member_id": self._id, "group_instance_id": self.instance}]
        await self._asked(LEAVE_GROUP, _LEAVE_VERSION, {"group_id": self.ownership.group, "members": members}, 3.0)

    def _in(self, generation: int) -> dict[str, Any]:
        return {
            "group_id": self.ownership.group,
            "generation_id": generation,
            "member_id": self._id,
            "group_instance_id": self.instance,
        }

    def _forget_id(self, code: ErrorCode) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._id = ""

    async def _asked(self, api_key: int, version: int, content: Fields, timeout_s: float) -> Any:
        """The answer; None if no broker answers, or not the coordinator."""
        try:
            answer = await self.coordinator.ask(api_key, version, content, timeout_s)
        except Unanswered:
            await self.pause()
            return None
        self.heard(FORMATS[api_key].module, ErrorCode(int(answer.error_code)))
        return answer

    def _shared(self, members: Sequence[Any]) -> dict[str, bytes]:
        """Partitions shared in turn, as the leader of a generation decides."""
        ids = sorted(str(member.member_id) for member in members)
        self.ownership.shared = count = self.partitions()
        return {member: assignment(self.topic, range(count)[number :: len(ids)]) for number, member in enumerate(ids)}
