"""The owner of each partition of a group: the member that it is assigned to, or that has not given it up yet. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar
from uuid import UUID

from broker_runtime.groups.consumer.state.behind import Behind
from broker_runtime.groups.consumer.state.member import ConsumerMember

_Held = tuple[UUID, tuple[int, ...]]
_PARTITIONS_OF_AN_ITEM = 64
_How = tuple[str, bool]
"""A member's id, and whether the member takes what it holds or releases it."""


class PartitionOwners(Behind[_Held, _How]):
    """The owners of partitions in a KIP-848 group.

    A partition has at most one owner: reconciliation assigns it to another member only when it is free. Changes of a
    member with many partitions are noted, and count after `catch_up` or with the next question.
    """

    OF_A_STEP: ClassVar[int] = 32
    """A topic with many partitions is several items."""

    def __init__(self) -> None:
        super().__init__()
        self._by_topic: dict[UUID, dict[int, str]] = {}

    def free(self, topic: UUID, partitions: Sequence[int]) -> Sequence[int]:
        """Return the partitions that have no owner."""
        self._catch_up_at_once()
        owners = self._by_topic.get(topic)
        return partitions if owners is None else [partition for partition in partitions if partition not in owners]

    def take(self, member: ConsumerMember) -> None:
        self._note(member, takes=True)

    def release(self, member: ConsumerMember) -> None:
        """Release the member's partitions, except those that another member owns by now."""
        self._note(member, takes=False)

    def _count(self, some: Sequence[_Held], how: _How) -> None:
        member_id, takes = how
        for topic, partitions in some:
            if takes:
                self._by_topic.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
            else:
                self._release(topic, partitions, member_id)

    def _note(self, member: ConsumerMember, *, takes: bool) -> None:
        current = member.current
        items = _items(current.assigned_partitions, current.partitions_pending_revocation)
        self._noted.append((items, (member.member_id, takes)))
        if len(self._noted) == 1 and not member.holds_many():
            self._catch_up_at_once()

    def _release(self, topic: UUID, partitions: tuple[int, ...], member_id: str) -> None:
        owners = self._by_topic.get(topic, {})
        for partition in partitions:
            if owners.get(partition) == member_id:
                del owners[partition]
        if not owners:
            self._by_topic.pop(topic, None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartitionOwners):
            return False
        self._catch_up_at_once()
        other._catch_up_at_once()
        return other._by_topic == self._by_topic

    __hash__ = None  # type: ignore[assignment]


def _items(*held: Mapping[UUID, tuple[int, ...]]) -> Iterator[_Held]:
    """Yield the partitions of each topic, at most _PARTITIONS_OF_AN_ITEM in an item."""
    for assignment in held:
        for topic, partitions in assignment.items():
            for first in range(0, len(partitions), _PARTITIONS_OF_AN_ITEM):
                yield topic, partitions[first : first + _PARTITIONS_OF_AN_ITEM]
