"""Partitions that nobody has, handed out one after another, near ones first where that is asked for. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from broker_runtime.groups.assignors.description import TopicDescription

Partition = tuple[UUID, int]


class FreePartitions:
    """Hands out each partition once."""

    def __init__(
        self, partitions: Sequence[Partition], topics: Mapping[UUID, TopicDescription], racks: Iterable[str | None]
    ) -> None:
        """`racks` are those of the members that may ask."""
        self._left = list(reversed(partitions))
        self._near = _by_rack(partitions, topics, frozenset(rack for rack in racks if rack is not None))
        self._taken: set[Partition] = set()

    @property
    def knows_racks(self) -> bool:
        """Whether it makes a difference who takes what."""
        return bool(self._near)

    def take_near(self, rack: str | None) -> Partition | None:
        """One with a replica in this rack; None where there is none left."""
        near = self._near.get(rack) if rack is not None else None
        while near:
            partition = near.pop()
            if partition not in self._taken:
                self._taken.add(partition)
                return partition
        return None

    def take(self) -> Partition:
        """The next one. Raises IndexError where none is left."""
        while (partition := self._left.pop()) in self._taken:
            pass
        if self._near:
            self._taken.add(partition)
        return partition


def _by_rack(
    partitions: Sequence[Partition], topics: Mapping[UUID, TopicDescription], racks: frozenset[str]
) -> dict[str, list[Partition]]:
    """For each of `racks` what has a replica in it, to be taken from the end: first what has the fewest other racks.

    Empty where every partition is in all of `racks`, or in none.
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
