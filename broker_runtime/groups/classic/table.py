"""The answers of a group of the classic protocol, and its next state, by state and event. Pure.

docs/reference/classic-groups.md is generated from this table, and a test runs each of its cells.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from broker_runtime.errors import ErrorCode
from broker_runtime.groups.classic.states import ClassicState


class Event(Enum):
    """An event of a classic group: a request with its sender, or a due timer.

    The values are texts for documentation.
    """

    NEW = "JoinGroup, no member id (version 4 and later)"
    NEW_WITHOUT_ASKING = "JoinGroup, no member id (before version 4)"
    NEW_STATIC = "JoinGroup, no member id, an instance id that no member has"
    STATIC_AGAIN = "JoinGroup, no member id, a member's instance id, the same protocol"
    GIVEN_ID = "JoinGroup, a member id that the coordinator assigned and no request has used yet"
    LEADER_AGAIN = "JoinGroup of the leader"
    FOLLOWER_AGAIN = "JoinGroup of another member, with unchanged metadata"
    FOLLOWER_CHANGED = "JoinGroup of another member, with changed metadata"
    LAST_TO_JOIN = "JoinGroup of the last missing member"
    STRANGER_JOINS = "JoinGroup, an unknown member id"
    FENCED_JOINS = "JoinGroup, a static member's instance id, another member id"
    OTHER_TYPE = "JoinGroup, another protocol type, or no protocol that all members support"
    NO_PROTOCOL = "JoinGroup, no protocol"
    LEADER_SYNCS = "SyncGroup of the leader"
    LEADER_SYNCS_IN_VAIN = "SyncGroup of the leader, and the log refuses its record"
    FOLLOWER_SYNCS = "SyncGroup of another member"
    OLD_SYNC = "SyncGroup, another generation"
    STRANGER_SYNCS = "SyncGroup, an unknown member id"
    FENCED_SYNCS = "SyncGroup, a static member's instance id, another member id"
    OTHER_SYNC = "SyncGroup, another protocol than the group's"
    BEAT = "Heartbeat"
    OLD_BEAT = "Heartbeat, another generation"
    STRANGER_BEATS = "Heartbeat, an unknown member id"
    FENCED_BEATS = "Heartbeat, a static member's instance id, another member id"
    LEAVE = "LeaveGroup of a member"
    LAST_LEAVES = "LeaveGroup of the last member"
    GIVEN_ID_LEAVES = "LeaveGroup, a member id that the coordinator assigned and no request has used yet"
    STRANGER_LEAVES = "LeaveGroup, an unknown member id"
    COMMIT = "OffsetCommit of a member"
    OLD_COMMIT = "OffsetCommit, another generation"
    STRANGER_COMMITS = "OffsetCommit, an unknown member id"
    NOBODY_COMMITS = "OffsetCommit, no member id and no generation"
    SESSION_END = "session.timeout.ms without a heartbeat of a member without a pending request"
    LAST_SESSION_END = "session.timeout.ms without a heartbeat of the last member"
    NEWCOMERS_ARE_DUE = "group.initial.rebalance.delay.ms without a new member"
    JOINS_ARE_DUE = "the longest rebalance timeout, and some have joined"
    NOBODY_JOINED = "the longest rebalance timeout, and only static members are left, which have not joined"
    SYNCS_ARE_DUE = "the longest rebalance timeout, and some have not synced"


class RequestOutcome(Enum):
    """The outcomes of requests that are not error codes."""

    WAITS = "waits"
    """The answer is sent later."""
    SILENT = ""
    """There is no request to answer."""


class Cell(NamedTuple):
    """One cell of the table of a classic group's states and requests. `then` is None if the state does not change."""

    answer: ErrorCode | RequestOutcome
    then: ClassicState | None = None


_DEAD, _EMPTY, _PREPARING = ClassicState.DEAD, ClassicState.EMPTY, ClassicState.PREPARING_REBALANCE
_COMPLETING, _STABLE = ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE
STATES = (_DEAD, _EMPTY, _PREPARING, _COMPLETING, _STABLE)

_OK = Cell(ErrorCode.NONE)
_WAITS = Cell(RequestOutcome.WAITS)
_REBALANCE = Cell(RequestOutcome.WAITS, _PREPARING)
_ID = Cell(ErrorCode.MEMBER_ID_REQUIRED)
_UNKNOWN = Cell(ErrorCode.UNKNOWN_MEMBER_ID)
_FENCED = Cell(ErrorCode.FENCED_INSTANCE_ID)
_OLD = Cell(ErrorCode.ILLEGAL_GENERATION)
_INCONSISTENT = Cell(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
_BUSY = Cell(ErrorCode.REBALANCE_IN_PROGRESS)
_NO_GROUP = Cell(ErrorCode.GROUP_ID_NOT_FOUND)
_BEGINS = Cell(ErrorCode.NONE, _PREPARING)
_ENDS = Cell(ErrorCode.NONE, _EMPTY)
_NEVER = None

_ROWS: Mapping[Event, tuple[Cell | None, ...]] = {
    Event.NEW: (Cell(ErrorCode.MEMBER_ID_REQUIRED, _EMPTY), _ID, _ID, _ID, _ID),
    Event.NEW_WITHOUT_ASKING: (_REBALANCE, _REBALANCE, _WAITS, _REBALANCE, _REBALANCE),
    Event.NEW_STATIC: (_REBALANCE, _REBALANCE, _WAITS, _REBALANCE, _REBALANCE),
    Event.STATIC_AGAIN: (_NEVER, _NEVER, _WAITS, _REBALANCE, _OK),
    Event.GIVEN_ID: (_UNKNOWN, _REBALANCE, _WAITS, _REBALANCE, _REBALANCE),
    Event.LEADER_AGAIN: (_UNKNOWN, _UNKNOWN, _WAITS, _OK, _REBALANCE),
    Event.FOLLOWER_AGAIN: (_UNKNOWN, _UNKNOWN, _WAITS, _OK, _OK),
    Event.FOLLOWER_CHANGED: (_UNKNOWN, _UNKNOWN, _WAITS, _REBALANCE, _REBALANCE),
    Event.LAST_TO_JOIN: (_NEVER, _NEVER, Cell(ErrorCode.NONE, _COMPLETING), _NEVER, _NEVER),
    Event.STRANGER_JOINS: (_UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN),
    Event.FENCED_JOINS: (_UNKNOWN, _UNKNOWN, _FENCED, _FENCED, _FENCED),
    Event.OTHER_TYPE: (_REBALANCE, _REBALANCE, _INCONSISTENT, _INCONSISTENT, _INCONSISTENT),
    Event.NO_PROTOCOL: (_INCONSISTENT, _INCONSISTENT, _INCONSISTENT, _INCONSISTENT, _INCONSISTENT),
    Event.LEADER_SYNCS: (_UNKNOWN, _UNKNOWN, _BUSY, Cell(ErrorCode.NONE, _STABLE), _OK),
    Event.LEADER_SYNCS_IN_VAIN: (
        _NEVER,
        _NEVER,
        _NEVER,
        Cell(ErrorCode.COORDINATOR_NOT_AVAILABLE, _PREPARING),
        _NEVER,
    ),
    Event.FOLLOWER_SYNCS: (_UNKNOWN, _UNKNOWN, _BUSY, _WAITS, _OK),
    Event.OLD_SYNC: (_UNKNOWN, _UNKNOWN, _OLD, _OLD, _OLD),
    Event.STRANGER_SYNCS: (_UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN),
    Event.FENCED_SYNCS: (_UNKNOWN, _UNKNOWN, _FENCED, _FENCED, _FENCED),
    Event.OTHER_SYNC: (_UNKNOWN, _UNKNOWN, _INCONSISTENT, _INCONSISTENT, _INCONSISTENT),
    Event.BEAT: (_UNKNOWN, _UNKNOWN, _BUSY, _OK, _OK),
    Event.OLD_BEAT: (_UNKNOWN, _UNKNOWN, _OLD, _OLD, _OLD),
    Event.STRANGER_BEATS: (_UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN),
    Event.FENCED_BEATS: (_UNKNOWN, _UNKNOWN, _FENCED, _FENCED, _FENCED),
    Event.LEAVE: (_UNKNOWN, _UNKNOWN, _OK, _BEGINS, _BEGINS),
    Event.LAST_LEAVES: (_NEVER, _NEVER, _ENDS, _ENDS, _ENDS),
    Event.GIVEN_ID_LEAVES: (_UNKNOWN, _OK, _OK, _BEGINS, _BEGINS),
    Event.STRANGER_LEAVES: (_UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN),
    Event.COMMIT: (_NO_GROUP, _UNKNOWN, _OK, _BUSY, _OK),
    Event.OLD_COMMIT: (_NO_GROUP, _UNKNOWN, _OLD, _OLD, _OLD),
    Event.STRANGER_COMMITS: (_NO_GROUP, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN),
    Event.NOBODY_COMMITS: (Cell(ErrorCode.NONE, _EMPTY), _OK, _UNKNOWN, _UNKNOWN, _UNKNOWN),
    Event.SESSION_END: (
        _NEVER,
        _NEVER,
        Cell(RequestOutcome.SILENT),
        Cell(RequestOutcome.SILENT, _PREPARING),
        Cell(RequestOutcome.SILENT, _PREPARING),
    ),
    Event.LAST_SESSION_END: (
        _NEVER,
        _NEVER,
        Cell(RequestOutcome.SILENT, _EMPTY),
        Cell(RequestOutcome.SILENT, _EMPTY),
        Cell(RequestOutcome.SILENT, _EMPTY),
    ),
    Event.NEWCOMERS_ARE_DUE: (_NEVER, _NEVER, Cell(RequestOutcome.SILENT, _COMPLETING), _NEVER, _NEVER),
    Event.JOINS_ARE_DUE: (_NEVER, _NEVER, Cell(RequestOutcome.SILENT, _COMPLETING), _NEVER, _NEVER),
    Event.NOBODY_JOINED: (_NEVER, _NEVER, Cell(RequestOutcome.SILENT), _NEVER, _NEVER),
    Event.SYNCS_ARE_DUE: (
        _NEVER,
        _NEVER,
        _NEVER,
        Cell(RequestOutcome.SILENT, _PREPARING),
        Cell(RequestOutcome.SILENT, _PREPARING),
    ),
}

TABLE: Mapping[tuple[ClassicState, Event], Cell | None] = {
    (state, event): cell for event in Event for state, cell in zip(STATES, _ROWS[event], strict=True)
}
"""The cell for each state and event. None if the event cannot occur in the state.

In the state Dead there is no group.
"""
