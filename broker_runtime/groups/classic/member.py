"""A member of a group of the classic protocol. Pure."""

from collections.abc import Container, Sequence

from broker_runtime.groups.answers import Later
from broker_runtime.groups.classic.requests import JoinAnswer, SyncAnswer
from broker_runtime.groups.records import ClassicMember, ClassicProtocol


class Member:
    """`member_id` to `assignment` are in the group's record; who waits for what is soft state."""

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
        """Of a static member (KIP-345)."""
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = 0
        self.session_timeout_ms = 0
        self.protocols: tuple[ClassicProtocol, ...] = ()
        """Those it can speak, the one it likes best first; after a fail-over the chosen one is all that is known."""
        self.assignment = b""
        """Of the last generation whose leader has said one."""
        self.join: Later[JoinAnswer] | None = None
        """Its JoinGroup, which waits for the others."""
        self.sync: Later[SyncAnswer] | None = None
        """Its SyncGroup, which waits for the leader's."""
        self.is_new = False
        """Whether it has never had an answer to a JoinGroup: it cannot send heartbeats yet."""

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
        """Raises KeyError where it does not speak the protocol."""
        return metadata_of(self.protocols, protocol)

    def vote(self, candidates: Container[str]) -> str:
        """The candidate that it likes best; it speaks one of them."""
        return next(name for name, _ in self.protocols if name in candidates)

    @property
    def is_static(self) -> bool:
        """Whether it has a name of its own that outlives its member id (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def needs_no_heartbeat(self) -> bool:
        """It cannot send any while it waits; a new one is given up all the same, so that nobody is waited for who has
        gone away."""
        return not self.is_new and (self.join is not None or self.sync is not None)


def metadata_of(protocols: Sequence[ClassicProtocol], protocol: str) -> bytes:
    """Raises KeyError if the protocol is not one of them."""
    for name, metadata in protocols:
        if name == protocol:
            return metadata
    raise KeyError(f"the member does not speak {protocol}")


def protocol_names(protocols: Sequence[ClassicProtocol]) -> set[str]:
    return {name for name, _ in protocols}
