"""A member of a group of the classic protocol. Pure."""

from collections.abc import Container, Sequence

from broker_runtime.groups.answers import DeferredAnswer
from broker_runtime.groups.classic.requests import JoinAnswer, SyncAnswer
from broker_runtime.groups.members_room import MEMBER_BYTES
from broker_runtime.groups.records import ClassicMember, ClassicProtocol


class Member:
    """A member of a classic group.

    The group's record has the fields from `member_id` to `assignment`; pending requests are soft state.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "join",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync",
    )

    def __init__(self, member_id: str, group_instance_id: str | None, client_id: str, client_host: str) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        """The instance id of a static member (KIP-345)."""
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = 0
        self.session_timeout_ms = 0
        self.protocols: tuple[ClassicProtocol, ...] = ()
        """The protocols that the member supports, in its order of preference; after a fail-over only the chosen one is
        known."""
        self.assignment = b""
        """The assignment of the last generation whose leader has sent one."""
        self.join: DeferredAnswer[JoinAnswer] | None = None
        """The answer to its pending JoinGroup, which waits for other members."""
        self.sync: DeferredAnswer[SyncAnswer] | None = None
        """The answer to its pending SyncGroup, which waits for the leader's."""
        self.is_new = False
        """Whether the member has not had an answer to a JoinGroup yet, so that it cannot send heartbeats."""

    @classmethod
    def restored(cls, value: ClassicMember, protocol: str) -> "Member":
        member = cls(value.member_id, value.group_instance_id, value.client_id, value.client_host)
        old = value.rebalance_timeout_ms == -1
        member.rebalance_timeout_ms = value.session_timeout_ms if old else value.rebalance_timeout_ms
        member.session_timeout_ms = value.session_timeout_ms
        member.protocols = (ClassicProtocol(protocol, value.subscription),)
        member.assignment = value.assignment
        return member

    def recorded(self, protocol: str, assignment: bytes) -> ClassicMember:
        return ClassicMember(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )

    def metadata(self, protocol: str) -> bytes:
        """Return the member's metadata for the protocol. Raises KeyError if the member does not support it."""
        return metadata_of(self.protocols, protocol)

    @property
    def size(self) -> int:
        """Return the number of bytes of `members_room` that the member takes."""
        return size_of(self.protocols) + len(self.assignment)

    def vote(self, candidates: Container[str]) -> str:
        """Return the protocol that the member prefers among the candidates.

        The member must support one of the candidates.
        """
        return next(name for name, _ in self.protocols if name in candidates)

    @property
    def is_static(self) -> bool:
        """Whether the member has an instance id, which outlives its member id (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def needs_no_heartbeat(self) -> bool:
        """Return whether the session continues without heartbeats: no member can send them during a pending request.

        A new member's session ends nevertheless, so that rebalances do not wait for a client that has disconnected.
        """
        return not self.is_new and (self.join is not None or self.sync is not None)


def metadata_of(protocols: Sequence[ClassicProtocol], protocol: str) -> bytes:
    """Return a member's metadata for one of its protocols. Raises KeyError if `protocols` lacks the protocol."""
    for name, metadata in protocols:
        if name == protocol:
            return metadata
    raise KeyError(f"the member does not support protocol {protocol}")


def size_of(protocols: Sequence[ClassicProtocol]) -> int:
    """Return the bytes that a member with these protocols takes in `members_room`."""
    return MEMBER_BYTES + sum(len(name) + len(metadata) for name, metadata in protocols)


def protocol_names(protocols: Sequence[ClassicProtocol]) -> set[str]:
    return {name for name, _ in protocols}
