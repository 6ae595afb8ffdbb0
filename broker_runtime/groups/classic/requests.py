"""What members ask and are told, without the wire. Pure.

An answer has an error code beside what else it says, as Kafka's clients look for the member id in some refusals.
"""

from dataclasses import dataclass
from typing import NamedTuple

from broker_runtime.errors import ErrorCode
from broker_runtime.groups.records import ClassicProtocol

NO_ID = ""
"""A member id that is not known, or not told."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """`member_id` is empty for one who has none yet."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[ClassicProtocol, ...]
    """What it can speak, best first."""
    needs_known_id: bool = True
    """A dynamic member without an id is given one and asks again (JoinGroup 4, KIP-394)."""
    can_skip_assignment: bool = True
    """It understands that it leads without having to assign (JoinGroup 9, KIP-814)."""


class JoinedMember(NamedTuple):
    """What the leader is told of each member; there may be thousands."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """`members` is empty for those who do not lead."""

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
    """`assignments` by member id; only the leader's count. Names that are None were not said (before version 5)."""

    group_id: str
    member_id: str
    generation: int
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """The member's own assignment."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """Answered by an error code."""

    group_id: str
    member_id: str
    generation: int
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """An empty id with an instance id is an administrator's word for a static member, whoever it is now."""

    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveRequest:
    """Several members, since version 3."""

    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True)
class LeaveAnswer:
    """One error for each member, in the order of the request."""

    errors: tuple[ErrorCode, ...]
