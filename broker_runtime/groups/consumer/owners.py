"""Who holds which partition of a group now: assigned to a member, or not yet given up by it. Pure."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from uuid import UUID

from broker_runtime.groups.consumer.member import ConsumerMember
from broker_runtime.steps import Steps, at_once

_TOPICS_AT_ONCE_MAX = 256
_TOPICS_OF_A_STEP = 64

_Held = Iterator[tuple[UUID, tuple[int, ...]]]


class PartitionOwners:
    """A partition has one owner at most; the rules of reconciliation give it to nobody else before it is free.

    What a member of many topics takes and releases is noted, and counts when `catch_up` is made, or with the next
    question.
    """

    def __init__(self) -> None:
        self._by_topic: dict[UUID, dict[int, str]] = {}
        self._noted: deque[tuple[_Held, str, bool]] = deque()
        """What is held, by which member, and whether it takes that or releases it."""

    def free(self, topic: UUID, partitions: Sequence[int]) -> Sequence[int]:
        """Those of the partitions that nobody owns."""
        self._catch_up_at_once()
        owners = self._by_topic.get(topic)
        return partitions if owners is None else [partition for partition in partitions if partition not in owners]

    def of(self, topic: UUID, partition: int) -> str | None:
        """The member's id."""
        self._catch_up_at_once()
        owners = self._by_topic.get(topic)
        return None if owners is None else owners.get(partition)

    def take(self, member: ConsumerMember) -> None:
        self._note(member, takes=True)

    def release(self, member: ConsumerMember) -> None:
        """What another member owns by now stays that one's."""
        self._note(member, takes=False)

    @property
    def are_behind(self) -> bool:
        """Whether there is something to catch up with."""
        return bool(self._noted)

    def catch_up(self) -> Steps[None]:
        """Take and release what is noted, in its order."""
        while self._noted:
            held, member_id, takes = self._noted[0]
            some = list(islice(held, _TOPICS_OF_A_STEP))
            for topic, partitions in some:
                if takes:
                    self._by_topic.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
                else:
                    self._release(topic, partitions, member_id)
            if len(some) < _TOPICS_OF_A_STEP:
                self._noted.popleft()
            yield

    def _catch_up_at_once(self) -> None:
        if self._noted:
            at_once(self.catch_up())

    def _note(self, member: ConsumerMember, *, takes: bool) -> None:
        assigned, pending = member.current.assigned_partitions, member.current.partitions_pending_revocation
        self._noted.append((chain(assigned.items(), pending.items()), member.member_id, takes))
        if len(self._noted) == 1 and len(assigned) + len(pending) <= _TOPICS_AT_ONCE_MAX:
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
