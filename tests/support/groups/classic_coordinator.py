"""A coordinator of classic groups in virtual time: decisions, a log that may refuse, timers, answers."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.seam import Deciding, in_one_go
from broker_runtime.coordination.timers import Timers
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.answers import DeferredAnswer, Outbox
from broker_runtime.groups.classic.group import APPLIERS, ClassicGroup
from broker_runtime.groups.classic.heartbeats import heartbeat
from broker_runtime.groups.classic.joining import join
from broker_runtime.groups.classic.leaving import leave
from broker_runtime.groups.classic.requests import (
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncAnswer,
    SyncRequest,
)
from broker_runtime.groups.classic.syncing import sync
from broker_runtime.groups.consumer.classic_members import CLASSIC_MEMBERS
from broker_runtime.groups.environment import GroupTimer
from broker_runtime.groups.members_room import MembersRoom
from broker_runtime.groups.records import ClassicProtocol, GroupRecord
from broker_runtime.groups.state import GroupsState
from broker_runtime.metadata.image import MetadataImage

T = TypeVar("T")
GROUP = "g"
RANGE = (ClassicProtocol("range", b"\x00\x01\x00\x00\x00\x01\x00\x01t"),)
OTHER_TOPIC = (ClassicProtocol("range", b"\x00\x01\x00\x00\x00\x01\x00\x01u"),)
START_MS = 1_000_000


class _VirtualTimers:
    """An implementation of `GroupTimers` whose time changes only by `advance` of the coordinator."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: Timers[GroupTimer] = Timers()

    def schedule(self, key: Hashable, delay_s: float, action: GroupTimer) -> None:
        self.timers.schedule(key, self.now_s + delay_s, action)

    def continue_with(self, key: Hashable, action: GroupTimer) -> None:
        self.schedule(key, 0.0, action)

    def schedule_if_absent(self, key: Hashable, delay_s: float, action: GroupTimer) -> None:
        if key not in self.timers:
            self.schedule(key, delay_s, action)

    def once_taken(self, act: Callable[[], None]) -> None:
        raise NotImplementedError("decisions of this protocol change soft state, or use go_on")

    def cancel(self, key: Hashable) -> None:
        self.timers.cancel(key)


@dataclass
class ClassicCoordinator:
    """A coordinator for tests: implements `GroupEnvironment` and the runtime.

    Each request is decided, written, applied and answered.
    """

    config: BrokerConfig = field(default_factory=BrokerConfig)
    image: MetadataImage = field(default_factory=MetadataImage)
    timers: _VirtualTimers = field(default_factory=_VirtualTimers)
    outbox: Outbox = field(default_factory=Outbox)
    members_room: MembersRoom = field(default_factory=MembersRoom)
    state: GroupsState = field(default_factory=lambda: GroupsState(APPLIERS, ClassicGroup))
    log: list[GroupRecord] = field(default_factory=list)
    log_refuses: bool = False
    ids: int = 0

    def now_ms(self) -> int:
        return START_MS + round(self.timers.now_s * 1000)

    def new_id(self) -> str:
        self.ids += 1
        return str(self.ids)

    def offload(self, work: Callable[[], T], then: Callable[[T | Exception], GroupTimer]) -> None:
        raise NotImplementedError("this protocol has no work to be done aside")

    def decide(self, decided: Deciding[GroupRecord, T]) -> T:
        """Write and apply a decision, and return its answer.

        Raises KafkaError if the log refuses the records; responses to other members are still sent.
        """
        records, answer = in_one_go(decided)
        try:
            if records and self.log_refuses:
                raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
            for record in records:
                self.state.apply(record, self.state.next_offset)
                self.log.append(record)
        finally:
            self.outbox.flush()
        self.advance(0.0)
        return answer

    def advance(self, seconds: float) -> None:
        """Advance the time; every timer that falls due is decided at its time."""
        end_s = self.timers.now_s + seconds
        while (due_s := self.timers.timers.next_due_s()) is not None and due_s <= end_s:
            self.timers.now_s = max(due_s, self.timers.now_s)
            for _, action in self.timers.timers.take_due(self.timers.now_s):
                self.decide_timer(action)
            self.outbox.flush()
        self.timers.now_s = end_s

    def decide_timer(self, action: GroupTimer) -> None:
        """Decide a timer; its decision is dropped if the log refuses the records."""
        records, _ = in_one_go(action(self.state))
        if records and self.log_refuses:
            return
        for record in records:
            self.state.apply(record, self.state.next_offset)
            self.log.append(record)

    @property
    def group(self) -> ClassicGroup:
        group = self.state.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    def join(self, member_id: str = "", **changes: Any) -> DeferredAnswer[JoinAnswer]:
        return self.decide(join(self.state, self, join_request(member_id, **changes), CLASSIC_MEMBERS))

    def joined(self, **changes: Any) -> str:
        """Id of a new member: it asks for an id, and joins with it."""
        given = told(self.join(**changes))
        assert given.error is ErrorCode.MEMBER_ID_REQUIRED
        self.join(given.member_id, **changes)
        return given.member_id

    def sync(
        self, member_id: str, generation: int | None = None, assignments: dict[str, bytes] | None = None, **said: str
    ) -> DeferredAnswer[SyncAnswer]:
        at = self.group.generation if generation is None else generation
        given = tuple((assignments or {}).items())
        return self.decide(
            sync(self.state, self, SyncRequest(GROUP, member_id, at, assignments=given, **said), CLASSIC_MEMBERS)
        )

    def beat(self, member_id: str, generation: int | None = None, instance_id: str | None = None) -> ErrorCode:
        at = self.group.generation if generation is None else generation
        return self.decide(
            heartbeat(self.state, self, HeartbeatRequest(GROUP, member_id, at, instance_id), CLASSIC_MEMBERS)
        )

    def leave(self, *leaving: LeavingMember) -> tuple[ErrorCode, ...]:
        return self.decide(leave(self.state, self, LeaveRequest(GROUP, leaving), CLASSIC_MEMBERS)).errors

    def stable(self, *, members: int = 1, **changes: Any) -> list[str]:
        """A group with so many members, all of which have their assignment (b"to " and the id); the first leads."""
        came = [self.joined(**changes) for _ in range(members)]
        self.advance(self.config.group_initial_rebalance_delay_ms / 1000 * (members + 1))
        leader = self.group.leader
        assert leader == came[0]
        for member_id in came[1:]:
            self.sync(member_id)
        self.sync(leader, assignments={member_id: b"to " + member_id.encode() for member_id in came})
        assert self.group.state_name == "Stable"
        return came


def join_request(member_id: str = "", **changes: Any) -> JoinRequest:
    fields: dict[str, Any] = {
        "group_id": GROUP,
        "member_id": member_id,
        "group_instance_id": None,
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": RANGE,
    }
    return JoinRequest(**(fields | changes))


def told(later: DeferredAnswer[T]) -> T:
    """The content of an answer, which must have arrived."""
    assert later.result is not None, "it still waits"
    if isinstance(later.result, KafkaError):
        raise later.result
    return later.result


def error_of(later: DeferredAnswer[JoinAnswer] | DeferredAnswer[SyncAnswer]) -> ErrorCode | None:
    """The error code of an answer; None while it is pending."""
    answer = later.result
    return answer.code if isinstance(answer, KafkaError) else None if answer is None else answer.error
