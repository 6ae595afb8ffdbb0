"""The interface by which KIP-848 groups decide about members that speak the classic protocol."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from broker_runtime.coordination.seam import Deciding
from broker_runtime.errors import ErrorCode
from broker_runtime.groups.answers import DeferredAnswer
from broker_runtime.groups.classic.requests import (
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    SyncAnswer,
    SyncRequest,
)
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.group import Group
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.state import GroupsState

T = TypeVar("T")
Decided = tuple[Sequence[GroupRecord], T]
"""The records to write and the answer: the result of a decision."""


class ModernGroups(Protocol):
    """Decides requests of classic members for a group of another type.

    The group may be empty: a classic member may take over such a group.
    """

    def join(
        self, state: GroupsState, environment: GroupEnvironment, group: Group, request: JoinRequest
    ) -> Deciding[GroupRecord, DeferredAnswer[JoinAnswer]]: ...

    def sync(
        self, state: GroupsState, environment: GroupEnvironment, group: Group, request: SyncRequest
    ) -> Decided[DeferredAnswer[SyncAnswer]]: ...

    def heartbeat(
        self, state: GroupsState, environment: GroupEnvironment, group: Group, request: HeartbeatRequest
    ) -> Decided[ErrorCode]: ...

    def leave(
        self, state: GroupsState, environment: GroupEnvironment, group: Group, request: LeaveRequest
    ) -> Deciding[GroupRecord, LeaveAnswer]: ...
