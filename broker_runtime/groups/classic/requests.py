"""The requests of members and the answers to them, independent of the wire format. Pure.

An answer always has all of its fields besides the error code, because Kafka's clients read the member id of some
refusals.
"""

from dataclasses import dataclass
from typing import NamedTuple

from broker_runtime.errors import ErrorCode
from broker_runtime.groups.records import ClassicProtocol

NO_ID = ""
"""The member id of a client whose id is not known or not sent."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A JoinGroup request. `member_id` is empty if the client has no id yet."""

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
    """Whether a dynamic member without an id gets one and must send the request again (JoinGroup 4, KIP-394)."""
    can_skip_assignment: bool = True
    """Whether the client understands that it leads but must not assign (JoinGroup 9, KIP-814)."""


class JoinedMember(NamedTuple):
    """A member in the answer to the leader's JoinGroup, which may list thousands."""

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
    """A SyncGroup request. `assignments` are by member id, and used only if the leader sends them.

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
    """A Heartbeat request, which is answered with an error code."""

    group_id: str
    member_id: str
    generation: int
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """A member that a LeaveGroup removes.

    An administrator sends an instance id and an empty member id, which match the current static member.
    """

    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveRequest:
    """A LeaveGroup request. Since version 3, the request may name several members."""

    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True)
class LeaveAnswer:
    """The answer to a LeaveGroup: an error code for each member, in the order of the request."""

    errors: tuple[ErrorCode, ...]
