"""The owner of each partition of a group: it is assigned to that member, or not given up by it yet. Pure."""

from collections.abc import Sequence
from itertools import chain
from typing import ClassVar
from uuid import UUID

from broker_runtime.groups.consumer.behind import Behind
from broker_runtime.groups.consumer.member import TOPICS_AT_ONCE_MAX, TOPICS_OF_A_STEP, ConsumerMember

_Held = tuple[UUID, tuple[int, ...]]
_How = tuple[str, bool]
"""A member's id, and whether the member takes what it holds or releases it."""


class PartitionOwners(Behind[_Held, _How]):
    """A partition has one owner at most: reconciliation assigns it to another member only when it is free.

    Changes of a member with many topics are noted, and count after `catch_up` or with the next question.
    """

    OF_A_STEP: ClassVar[int] = TOPICS_OF_A_STEP

    def __init__(self) -> None:
        super().__init__()
        self._by_topic: dict[UUID, dict[int, str]] = {}

    def free(self, topic: UUID, partitions: Sequence[int]) -> Sequence[int]:
        """The partitions that have no owner."""
        self._catch_up_at_once()
        owners = self._by_topic.get(topic)
        return partitions if owners is None else [partition for partition in partitions if partition not in owners]

    def take(self, member: ConsumerMember) -> None:
        self._note(member, takes=True)

    def release(self, member: ConsumerMember) -> None:
        """What another member owns by now stays that one's."""
        self._note(member, takes=False)

    def _count(self, some: Sequence[_Held], how: _How) -> None:
        member_id, takes = how
        for topic, partitions in some:
            if takes:
                self._by_topic.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
            else:
                self._release(topic, partitions, member_id)

    def _note(self, member: ConsumerMember, *, takes: bool) -> None:
        assigned, pending = member.current.assigned_partitions, member.current.partitions_pending_revocation
        self._noted.append((chain(assigned.items(), pending.items()), (member.member_id, takes)))
        if len(self._noted) == 1 and len(assigned) + len(pending) <= TOPICS_AT_ONCE_MAX:
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
