"""Counts of Kafka's cluster and replication metrics, computed from an image. Pure; names and exposition are elsewhere.

One walk over all partitions for each state that is scraped (`OncePerState`) costs less than updating counts with every
change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from broker_runtime.metadata.areas.topics import NO_LEADER
from broker_runtime.metadata.image import MetadataImage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ControllerMetrics:
    """The metrics of a controller: kafka.controller:type=KafkaController."""

    active: bool
    active_brokers: int
    fenced_brokers: int
    topics: int
    partitions: int
    offline_partitions: int
    preferred_replica_imbalance: int


@dataclass(frozen=True, slots=True)
class ReplicationMetrics:
    """The metrics of one broker's replicas: kafka.server:type=ReplicaManager."""

    partitions: int
    leaders: int
    under_replicated: int
    under_min_isr: int
    at_min_isr: int
    isr_shrinks: int
    isr_expands: int


class OncePerState(Generic[T]):
    """A value that follows from an image alone, computed once for each requested state.

    Only the newest value is kept.
    """

    __slots__ = ("_found", "_offset", "_topics")

    def __init__(self) -> None:
        self._topics: object = None
        self._offset = -1
        self._found: T

    def get(self, image: MetadataImage, make: Callable[[], T]) -> T:
        # An image that replaces another one as a whole may have the same offset.
        if self._topics is not image.topics or self._offset != image.offset:
            self._found = make()
            self._topics, self._offset = image.topics, image.offset
        return self._found


def controller_figures(image: MetadataImage, *, active: bool) -> ControllerMetrics:
    """Return the metrics of a controller.

    They are zero for a controller that is not active, as in Kafka: its image may be behind.
    """
    if not active:
        return ControllerMetrics(False, 0, 0, 0, 0, 0, 0)
    fenced = sum(broker.fenced for broker in image.brokers.values())
    parts = [part for topic in image.topics.values() for part in topic.partitions.values()]
    return ControllerMetrics(
        True,
        len(image.brokers) - fenced,
        fenced,
        len(image.topics),
        len(parts),
        sum(part.leader == NO_LEADER for part in parts),
        sum(part.leader != part.replicas[0] for part in parts),
    )


def replication_figures(
    image: MetadataImage, broker_id: int, min_isr: Callable[[str], int], isr_changes: tuple[int, int]
) -> ReplicationMetrics:
    """Return the metrics of one broker's replicas.

    `min_isr` returns the min.insync.replicas of a topic; `isr_changes` are the shrinks and expands that this broker has
    caused.
    """
    partitions = leaders = under_replicated = under_min_isr = at_min_isr = 0
    for topic in image.topics.values():
        parts = [part for part in topic.partitions.values() if broker_id in part.replicas]
        led = [part for part in parts if part.leader == broker_id]
        partitions += len(parts)
        leaders += len(led)
        if led:
            least = min_isr(topic.name)
            under_replicated += sum(len(part.isr) < len(part.replicas) for part in led)
            under_min_isr += sum(len(part.isr) < least for part in led)
            at_min_isr += sum(len(part.isr) == least for part in led)
    return ReplicationMetrics(partitions, leaders, under_replicated, under_min_isr, at_min_isr, *isr_changes)
