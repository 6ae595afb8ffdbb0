"""The interface of a group, common to all protocols. Pure."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from broker_runtime.groups.kinds import GroupType as GroupType
from broker_runtime.groups.records import GroupRecord

CONSUMER = "consumer"
"""The protocol type of groups that read topics, common to all group protocols."""


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

    @property
    def is_anonymous(self) -> bool:
        """Return whether the request names neither a member nor a generation."""
        return self.generation_or_epoch < 0 and not self.member_id and self.group_instance_id is None


Partitions = Iterable[tuple[UUID | None, int]]
"""Partitions that a commit names: topic ids and partition numbers. The id is None for a topic that does not exist."""


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
    """A group of any protocol.

    The implementations are `classic.group.ClassicGroup`, `consumer.state.group.ConsumerGroup` and
    `push.state.group.PushGroup`.
    """

    @property
    def group_id(self) -> str: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def protocol_type(self) -> str:
        """Return Kafka's protocol type: `consumer` for consumers; empty for a group that only keeps offsets."""
        ...

    @property
    def state_name(self) -> str:
        """Return the state as ListGroups names it, such as Empty, PreparingRebalance, Assigning or Stable."""
        ...

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        ...

    def check_commit(self, committer: Committer, partitions: Partitions = (), *, in_transaction: bool = False) -> None:
        """Raise KafkaError if the committer may not commit, or may not commit for one of these partitions.

        In a transaction (KIP-447), a client that names neither a member nor a generation may always commit: older
        clients know neither. A rebalance does not matter, and a wrong member epoch is an ILLEGAL_GENERATION.
        """
        ...

    def check_fetch(self, committer: Committer) -> None:
        """Raise KafkaError if the member may not fetch offsets (OffsetFetch 9)."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic. If so, the topic's offsets must not be deleted (KIP-496)."""
        ...

    def offset_retention(self) -> OffsetRetention | None: ...

    def tombstones(self) -> Sequence[GroupRecord]:
        """Return the records that end the group in the log, except the tombstones of its offsets."""
        ...
