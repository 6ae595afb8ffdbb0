"""The requests of members and the answers to them, independent of the wire format. Pure.

An answer always has all of its fields besides the error code, because Kafka's clients read the member id of some
refusals.
"""

from dataclasses import dataclass
from typing import NamedTuple

from broker_runtime.errors import ErrorCode
from broker_runtime.groups.records import ClassicProtocol

NO_ID = ""
"""A member id that is not known or not sent."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A JoinGroup. `member_id` is empty if the client has none yet."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[ClassicProtocol, ...]
    """The protocols that the member supports, preferred ones first."""
    needs_known_id: bool = True
    """A dynamic member without an id gets one and must send the request again (JoinGroup 4, KIP-394)."""
    can_skip_assignment: bool = True
    """The client understands that it leads but must not assign (JoinGroup 9, KIP-814)."""


class JoinedMember(NamedTuple):
    """A member as described to the leader; there may be thousands."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """The answer to a JoinGroup. `members` is empty except for the leader."""

    error: ErrorCode
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_ID
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """A SyncGroup. `assignments` are by member id and used only if the leader sends them.

    Protocol names are None if the request has none (before version 5).
    """

    group_id: str
    member_id: str
    generation: int
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """The answer to a SyncGroup: the member's own assignment."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """A Heartbeat. The answer is an error code."""

    group_id: str
    member_id: str
    generation: int
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """A member to remove.

    An administrator sends an instance id and an empty member id, which match the current static member.
    """

    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveRequest:
    """A LeaveGroup. Since version 3 it may name several members."""

    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True)
class LeaveAnswer:
    """The answer to a LeaveGroup: an error code for each member, in the order of the request."""

    errors: tuple[ErrorCode, ...]
