"""The interface of a group, common to all protocols. Pure."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from broker_runtime.groups.kinds import GroupType as GroupType
from broker_runtime.groups.records import GroupRecord

CONSUMER = "consumer"
"""The protocol type of groups that read topics, common to all protocols."""


@dataclass(frozen=True, slots=True)
class Committer:
    """The client that commits or fetches offsets, as identified by the request.

    `generation_or_epoch` is the generation or the member epoch. An empty id and -1 stand for a client that has not
    joined.
    """

    member_id: str = ""
    generation_or_epoch: int = -1
    group_instance_id: str | None = None
    api_version: int = 9


Partitions = Iterable[tuple[UUID | None, int]]
"""Topic ids and partition numbers. The id is None if the topic does not exist."""


@dataclass(frozen=True, slots=True)
class OffsetRetention:
    """The current rule by which offsets of a group expire.

    They expire `retention` after `base_ms`, or after their commit if `base_ms` is None. Offsets of `subscribed` topics
    do not expire. That set is the group's own and not a copy, so that it is valid for one decision only. A group
    returns None in place of an OffsetRetention if none of its offsets expires now.
    """

    base_ms: int | None
    subscribed: Set[str] = frozenset()


class Group(Protocol):
    """The interface of a group. Each protocol has a class that implements it.

    They are `classic.group.ClassicGroup`, `consumer.state.group.ConsumerGroup` and `push.state.group.PushGroup`.
    """

    @property
    def group_id(self) -> str: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def protocol_type(self) -> str:
        """Kafka's protocol type: `consumer` for consumers; empty for a group that only keeps offsets."""
        ...

    @property
    def state_name(self) -> str:
        """The state as ListGroups names it: Empty, PreparingRebalance, CompletingRebalance, Assigning, Stable ..."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        ...

    def check_commit(self, committer: Committer, partitions: Partitions = ()) -> None:
        """Raise KafkaError if the committer may not commit, or may not commit for one of these partitions."""
        ...

    def check_fetch(self, committer: Committer) -> None:
        """Raise KafkaError if the member may not fetch offsets (OffsetFetch 9)."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic. If so, its offsets must not be deleted (KIP-496)."""
        ...

    def offset_retention(self) -> OffsetRetention | None: ...

    def tombstones(self) -> Sequence[GroupRecord]:
        """Return the records that end the group in the log, except the tombstones of its offsets."""
        ...
