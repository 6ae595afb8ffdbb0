"""Free partitions, handed out one after another; those in a member's rack first, on request. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from broker_runtime.groups.assignors.description import TopicDescription

Partition = tuple[UUID, int]


class FreePartitions:
    """The partitions that are not yet assigned. Each of them is taken once."""

    def __init__(
        self, partitions: Sequence[Partition], topics: Mapping[UUID, TopicDescription], racks: Iterable[str | None]
    ) -> None:
        """`racks` are the racks of the members that take partitions."""
        self._left = list(reversed(partitions))
        self._near = _by_rack(partitions, topics, frozenset(rack for rack in racks if rack is not None))
        self._taken: set[Partition] = set()

    @property
    def knows_racks(self) -> bool:
        """Return whether racks matter for the choice of a member for a partition."""
        return bool(self._near)

    def take_near(self, rack: str | None) -> Partition | None:
        """Take a partition with a replica in this rack; None if no such partition is left."""
        near = self._near.get(rack) if rack is not None else None
        while near:
            partition = near.pop()
            if partition not in self._taken:
                self._taken.add(partition)
                return partition
        return None

    def take(self) -> Partition:
        """Take the next partition that is not assigned yet. Raises IndexError if no partition is left."""
        while (partition := self._left.pop()) in self._taken:
            pass
        if self._near:
            self._taken.add(partition)
        return partition


def _by_rack(
    partitions: Sequence[Partition], topics: Mapping[UUID, TopicDescription], racks: frozenset[str]
) -> dict[str, list[Partition]]:
    """Return for each rack the partitions with a replica in it, to be taken from the end.

    The last ones have replicas in the fewest other racks. The result is empty if every partition is in all of `racks`,
    or in none.
    """
    topic_ids = {topic_id for topic_id, _ in partitions}
    replicas = {of_partition for topic_id in topic_ids for of_partition in topics[topic_id].racks}
    if all(racks <= of_partition or not racks & of_partition for of_partition in replicas):
        return {}
    found: dict[str, list[Partition]] = {rack: [] for rack in sorted(racks)}
    described = ((partition, topics[partition[0]].racks) for partition in partitions)
    near = [(partition, racks & of_topic[partition[1]]) for partition, of_topic in described if of_topic]
    near.reverse()
    near.sort(key=lambda item: -len(item[1]))
    for partition, of_partition in near:
        for rack in of_partition:
            found[rack].append(partition)
    return found
