"""Who holds which partition of a group now: assigned to a member, or not yet given up by it. Pure."""

from uuid import UUID

from broker_runtime.groups.consumer.member import ConsumerMember


class PartitionOwners:
    """A partition has one owner at most; the rules of reconciliation give it to nobody else before it is free."""

    def __init__(self) -> None:
        self._by_topic: dict[UUID, dict[int, str]] = {}

    def of(self, topic: UUID, partition: int) -> str | None:
        """The member's id."""
        owners = self._by_topic.get(topic)
        return None if owners is None else owners.get(partition)

    def take(self, member: ConsumerMember) -> None:
        for held in (member.current.assigned_partitions, member.current.partitions_pending_revocation):
            for topic, partitions in held.items():
                self._by_topic.setdefault(topic, {}).update(dict.fromkeys(partitions, member.member_id))

    def release(self, member: ConsumerMember) -> None:
        """What another member owns by now stays that one's."""
        for held in (member.current.assigned_partitions, member.current.partitions_pending_revocation):
            for topic, partitions in held.items():
                owners = self._by_topic.get(topic, {})
                for partition in partitions:
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    self._by_topic.pop(topic, None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionOwners) and other._by_topic == self._by_topic

    __hash__ = None  # type: ignore[assignment]
