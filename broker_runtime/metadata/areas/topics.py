"""The area of topics and their partitions: replicas, leaders, in-sync sets (KIP-631, KIP-966). Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import ClassVar, Self, cast
from uuid import UUID

from broker_runtime.metadata.areas.area import ReadOnlyTable
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps, chosen

NO_LEADER = -1


class TopicRecord(MetadataRecord, frozen=True, tag=5):
    """Record that creates a topic; its partitions follow as records of their own."""

    name: str
    id: UUID


class PartitionRecord(MetadataRecord, frozen=True, tag=6):
    """Record of a new or changed partition's state: its topic id and index, then all fields of `Partition`."""

    topic_id: UUID
    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()


class RemoveTopic(MetadataRecord, frozen=True, tag=7):
    """Record that removes a topic with its partitions and its configuration."""

    id: UUID


@dataclass(frozen=True, slots=True)
class Partition:
    """The replicas and the leader of a partition.

    The leader may be NO_LEADER. The epochs count leaders and changes.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()
    """Replicas that are in `replicas` only because of a reassignment in progress, in any order."""
    removing: tuple[int, ...] = ()
    """Replicas that are removed when the added ones are in sync."""
    elr: tuple[int, ...] = ()
    """Eligible leader replicas (KIP-966): not in sync, but with all records below the high watermark."""

    @classmethod
    def of(cls, record: PartitionRecord) -> Self:
        return cls(*_PARTITION_FIELDS(record))

    def record(self, topic_id: UUID, index: int) -> PartitionRecord:
        return PartitionRecord(topic_id, index, *_PARTITION_FIELDS(self))


_PARTITION_FIELDS = attrgetter(*(field.name for field in fields(Partition)))
"""Record and state have the same fields in the same order, which a test checks."""


_COMPARED_IN_A_STEP = 64
"""Number of partitions; each takes about a microsecond."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with its partitions.

    Applied records change `partitions` in place until the table of topics is copied. After a copy, the next record of
    the topic creates another `Topic`.
    """

    name: str
    id: UUID
    partitions: Mapping[int, Partition]


class Topics(ReadOnlyTable[str, Topic]):
    """The topics by name."""

    __slots__ = ("_by_id", "_led", "_own")
    RECORDS: ClassVar[tuple[type[MetadataRecord], ...]] = (TopicRecord, PartitionRecord, RemoveTopic)

    def __init__(self) -> None:
        super().__init__()
        self._by_id: dict[UUID, Topic] = {}
        self._led: Counter[int] = Counter()
        """Number of partitions that each broker leads."""
        self._own: set[UUID] | None = None
        """Topics whose partitions are not shared with a copy, None for all: a change must not copy every topic."""

    def by_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def led_by(self, broker_id: int) -> int:
        """Return the number of partitions that the broker leads."""
        return self._led[broker_id]

    def apply(self, record: MetadataRecord, offset: int | None, changes: Changes) -> None:
        match record:
            case PartitionRecord():
                self._set_partition(record, changes)
            case TopicRecord():
                if record.name in self._entries or record.id in self._by_id:
                    raise ValueError(f"topic {record.name} ({record.id}) is created twice")
                self._add(record.name, record.id, {})
            case RemoveTopic():
                topic = self._known(record.id)
                del self._entries[topic.name], self._by_id[topic.id]
                self._led.subtract(part.leader for part in topic.partitions.values())
                if self._own is not None:
                    self._own.discard(topic.id)
                changes.topics_removed.add(topic.name)
                changes.removals.topics.add(topic.id)
                changes.removals.names[topic.name] = topic.id

    def _set_partition(self, record: PartitionRecord, changes: Changes) -> None:
        topic = self._known(record.topic_id)
        before = topic.partitions.get(record.index)
        if before is not None and before.replicas != record.replicas:
            gone = set(before.replicas) - set(record.replicas)
            changes.removals.replicas.update((topic.id, record.index, broker_id) for broker_id in gone)
        self._owned(topic)[record.index] = Partition.of(record)
        if before is not None:
            self._led[before.leader] -= 1
        self._led[record.leader] += 1
        changes.partitions.add((topic.id, record.index))

    def _owned(self, topic: Topic) -> dict[int, Partition]:
        """Return the partitions of the topic, which are not shared with a copy of the table."""
        if self._own is not None and topic.id not in self._own:
            topic = self._add(topic.name, topic.id, dict(topic.partitions))
        return cast("dict[int, Partition]", topic.partitions)

    def _known(self, topic_id: UUID) -> Topic:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise ValueError(f"a record names topic id {topic_id}, which does not exist")
        return topic

    def _add(self, name: str, topic_id: UUID, partitions: dict[int, Partition]) -> Topic:
        if self._own is not None:
            self._own.add(topic_id)
        topic = self._entries[name] = self._by_id[topic_id] = Topic(name, topic_id, partitions)
        return topic

    def records(self) -> Iterator[MetadataRecord]:
        for name in sorted(self._entries):
            topic = self._entries[name]
            yield TopicRecord(topic.name, topic.id)
            for index in sorted(topic.partitions):
                yield topic.partitions[index].record(topic.id, index)

    def copy(self) -> Self:
        other = super().copy()
        other._by_id = self._by_id.copy()
        self._own, other._own = set(), set()
        other._led = self._led.copy()
        return other

    def note_differences(self, newer: Self, changes: Changes) -> Steps[None]:
        def is_removed(name: str) -> bool:
            after = newer.get(name)
            return after is None or after.id != self[name].id

        changes.topics_removed.update((yield from chosen(self, is_removed)))
        compared = 0
        for after in newer.values():
            before = self.get(after.name)
            known = before.partitions if before is not None and before.id == after.id else {}
            for index, part in after.partitions.items():
                if known.get(index) != part:
                    changes.partitions.add((after.id, index))
                compared += 1
                if compared % _COMPARED_IN_A_STEP == 0:
                    yield
