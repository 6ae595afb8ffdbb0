"""The live leaders of partitions, by the metadata. Pure."""

from collections.abc import Callable

from broker_runtime.metadata.image import MetadataImage
from broker_runtime.transactions.seam import TopicPartition

NO_LEADER = -1
"""The leader of a partition whose leader is unknown or not alive."""
LeaderOf = Callable[[TopicPartition], int | None]
"""Returns the id of the broker that leads a partition, NO_LEADER, or None if the partition does not exist."""


def leaders_in(image: MetadataImage) -> LeaderOf:
    """Return a function that finds the leader of a partition in the metadata."""

    def leader_of(place: TopicPartition) -> int | None:
        topic = image.topics.get(place[0])
        partition = None if topic is None else topic.partitions.get(place[1])
        if partition is None:
            return None
        broker = image.brokers.get(partition.leader)
        return NO_LEADER if broker is None or broker.fenced else broker.id

    return leader_of
