"""What the coordinator asks of a group, whatever protocol its members speak. Pure."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from broker_runtime.groups.kinds import GroupType as GroupType
from broker_runtime.groups.records import GroupRecord

CONSUMER = "consumer"
"""The protocol type of those who read topics, whichever protocol they speak."""


@dataclass(frozen=True, slots=True)
class Committer:
    """Who commits or asks for offsets: member id and generation (or member epoch), as the request says them.

    An empty id and -1 are a client that is no member.
    """

    member_id: str = ""
    generation_or_epoch: int = -1
    group_instance_id: str | None = None
    api_version: int = 9


Partitions = Iterable[tuple[UUID | None, int]]
"""Topics by id; None where there is no such topic."""


@dataclass(frozen=True, slots=True)
class OffsetRetention:
    """Of a group now: offsets expire `retention` after `base_ms`, or after their commit where it is None.

    `subscribed` topics do not expire. They are those of the group, and not a copy: this holds for one decision. None
    instead of all of this: nothing expires now.
    """

    base_ms: int | None
    subscribed: Set[str] = frozenset()


class Group(Protocol):
    """Implemented by `classic.group.ClassicGroup` and `consumer.group.ConsumerGroup`."""

    @property
    def group_id(self) -> str: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def protocol_type(self) -> str:
        """`consumer` for consumers; empty for a group that only keeps offsets."""
        ...

    @property
    def state_name(self) -> str:
        """In the words of ListGroups: Empty, PreparingRebalance, CompletingRebalance, Assigning, Stable ..."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        ...

    def check_commit(self, committer: Committer, partitions: Partitions = ()) -> None:
        """Raises KafkaError where the committer may not commit, or not for all of these partitions."""
        ...

    def check_fetch(self, committer: Committer) -> None:
        """Raises KafkaError where the member may not ask for offsets (OffsetFetch 9)."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic: its offsets must not be deleted (KIP-496)."""
        ...

    def offset_retention(self) -> OffsetRetention | None: ...

    def tombstones(self) -> Sequence[GroupRecord]:
        """What ends the group in the log, its offsets aside."""
        ...
