"""Who leads a partition and who is in its in-sync set, as the controller decides it (KIP-631, KIP-841).

Pure: partitions as they are in, partition records out. Every change of a partition goes through `settled`, which
finishes a reassignment when it can be finished, keeps or elects a leader, and counts the epochs. The in-sync set is
never emptied: its last member stays, and the partition has no leader until it is back. Where a topic allows unclean
elections no partition is without a leader while one of its replicas is active, whatever led to it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from broker_runtime.controller.image import MetadataImage, Partition, Topic
from broker_runtime.controller.records import NO_LEADER, ConfigRecord, PartitionRecord, Record
from broker_runtime.errors import ErrorCode, KafkaError

REBALANCED_MAX = 1_000
"""Leaders that one rebalance moves; Kafka's number."""
_UNCLEAN_KEY = "unclean.leader.election.enable"


class ElectionType(IntEnum):
    """Numbers as ElectLeaders (43) sends them."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class Candidates:
    """`active` may lead. With `unclean` one that is not in sync may, when nobody else can; records may be lost then."""

    active: frozenset[int]
    unclean: bool = False
    prefer_first: bool = False
    """Give the leadership to the first replica where that is possible, though the present leader is fine."""


def active_brokers(image: MetadataImage) -> frozenset[int]:
    return frozenset(broker.id for broker in image.brokers.values() if broker.active)


def unclean_allowed(topic: str, image: MetadataImage) -> bool:
    """The topic's own word, else the cluster's, else that of the controller's properties file."""
    text = image.topic_configs(topic).get(_UNCLEAN_KEY, image.broker_configs(None).get(_UNCLEAN_KEY))
    return image.unclean_by_default if text is None else text.strip().lower() == "true"


def settled(old: Partition, wanted: Partition, candidates: Candidates) -> Partition:
    """`wanted`, with its leader and epochs; `old` itself when nothing changes. `wanted` has the epochs of `old`."""
    wanted = _with_reassignment_finished(wanted)
    leader, isr = _led(wanted, candidates)
    same = (
        leader == old.leader
        and isr == old.isr
        and wanted.replicas == old.replicas
        and wanted.adding == old.adding
        and wanted.removing == old.removing
    )
    if same:
        return old
    # A replica that is taken away hears of it by the leader epoch, as in Kafka.
    bump = leader != old.leader or (wanted.replicas != old.replicas and not set(old.replicas) <= set(wanted.replicas))
    return Partition(
        wanted.replicas,
        isr,
        leader,
        old.leader_epoch + bump,
        old.partition_epoch + 1,
        wanted.adding,
        wanted.removing,
    )


def partition_record(topic_id: UUID, index: int, part: Partition) -> PartitionRecord:
    return PartitionRecord(
        topic_id,
        index,
        part.replicas,
        part.isr,
        part.leader,
        part.leader_epoch,
        part.partition_epoch,
        part.adding,
        part.removing,
    )


def _with_reassignment_finished(part: Partition) -> Partition:
    """When all that are added are in sync, and one that stays is."""
    if not part.adding and not part.removing:
        return part
    isr = tuple(r for r in part.isr if r not in part.removing)
    if not isr or not set(part.adding) <= set(isr):
        return part
    replicas = tuple(r for r in part.replicas if r not in part.removing)
    return Partition(replicas, isr, part.leader, part.leader_epoch, part.partition_epoch)


def _led(part: Partition, candidates: Candidates) -> tuple[int, tuple[int, ...]]:
    """The leader and the in-sync set."""
    active = candidates.active
    first = part.replicas[0]
    if candidates.prefer_first and first in part.isr and first in active:
        return first, part.isr
    if part.leader in active and part.leader in part.isr:
        return part.leader, part.isr
    for replica in part.replicas:
        if replica in part.isr and replica in active:
            return replica, part.isr
    if candidates.unclean:
        for replica in part.replicas:
            if replica in active:
                return replica, (replica,)
    return NO_LEADER, part.isr


# What happens to a whole broker


def leave(broker_id: int, image: MetadataImage) -> list[Record]:
    """The broker leaves every in-sync set where it is not the last one, and leads nothing any more."""
    active = active_brokers(image) - {broker_id}
    records: list[Record] = []
    for topic, index, part in partitions(image):
        if broker_id in part.isr or broker_id == part.leader:
            isr = tuple([r for r in part.isr if r != broker_id]) or part.isr
            wanted = Partition(
                part.replicas, isr, part.leader, part.leader_epoch, part.partition_epoch, part.adding, part.removing
            )
            new = settled(part, wanted, Candidates(active, unclean_allowed(topic.name, image)))
            if new is not part:
                records.append(partition_record(topic.id, index, new))
    return records


def come_back(broker_id: int, image: MetadataImage) -> list[Record]:
    """Partitions without a leader that this broker, which is about to be active, may lead."""
    active = active_brokers(image) | {broker_id}
    records: list[Record] = []
    for topic, index, part in partitions(image):
        if part.leader == NO_LEADER and broker_id in part.replicas:
            new = settled(part, part, Candidates(active, unclean_allowed(topic.name, image)))
            if new is not part:
                records.append(partition_record(topic.id, index, new))
    return records


def leads_any(broker_id: int, image: MetadataImage) -> bool:
    return any(part.leader == broker_id for _, _, part in partitions(image))


# Elections that are asked for, and those of a timer


def elect(topic: Topic, index: int, kind: ElectionType, image: MetadataImage) -> Record:
    """Raises KafkaError where there is nothing to elect or nobody to be elected."""
    part = topic.partitions.get(index)
    if part is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic.name}-{index}")
    preferred = kind is ElectionType.PREFERRED
    if part.leader == part.replicas[0] if preferred else part.leader != NO_LEADER:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    unclean = not preferred or unclean_allowed(topic.name, image)
    new = settled(part, part, Candidates(active_brokers(image), unclean, prefer_first=preferred))
    if new is part:
        raise KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "The preferred leader was not available."
            if preferred
            else "Eligible topic partition leaders are not available.",
        )
    return partition_record(topic.id, index, new)


def rebalance(image: MetadataImage) -> list[Record]:
    """For auto.leader.rebalance: preferred replicas that could lead do; at most REBALANCED_MAX partitions at once."""
    active = active_brokers(image)
    records: list[Record] = []
    for topic, index, part in partitions(image):
        if part.leader == part.replicas[0]:
            continue
        new = settled(part, part, Candidates(active, prefer_first=True))
        if new is not part:
            records.append(partition_record(topic.id, index, new))
            if len(records) == REBALANCED_MAX:
                break
    return records


def consequences(decided: Iterable[Record], image: MetadataImage) -> list[Record]:
    """What follows of records that were just applied: unclean elections where they have become allowed."""
    if any(isinstance(record, ConfigRecord) and record.key == _UNCLEAN_KEY for record in decided):
        return elect_uncleanly(image)
    return []


def elect_uncleanly(image: MetadataImage) -> list[Record]:
    """Leaders for partitions that have none, where the topic allows one that may miss records."""
    active = active_brokers(image)
    records: list[Record] = []
    for topic, index, part in partitions(image):
        if part.leader == NO_LEADER and unclean_allowed(topic.name, image):
            new = settled(part, part, Candidates(active, unclean=True))
            if new is not part:
                records.append(partition_record(topic.id, index, new))
    return records


def partitions(image: MetadataImage) -> Iterator[tuple[Topic, int, Partition]]:
    for topic in image.topics.values():
        for index, part in topic.partitions.items():
            yield topic, index, part
