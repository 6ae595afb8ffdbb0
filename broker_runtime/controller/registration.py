"""Broker registration, sessions and fencing (KIP-631); pure: the time comes as an argument.

- A registration starts fenced; a heartbeat of a broker that has its own registration in its metadata unfences it.
- A broker that is silent for longer than the session timeout is fenced. Sessions are soft state: a controller that
  starts gives every unfenced broker a fresh one.
- A second incarnation is refused while the first has a live session. Unlike Apache Kafka a clean stop ends the
  session, so that the id is free at once.
- Fencing moves leaderships to another live in-sync replica. Where there is none the partition has no leader until the
  broker is back. What is missing until replication exists: shrinking the ISR, and a controlled shutdown that waits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from broker_runtime.controller.image import BrokerInfo, MetadataImage, Partition, Topic
from broker_runtime.controller.records import (
    NO_LEADER,
    BrokerEndpoint,
    FenceBroker,
    PartitionRecord,
    Record,
    RegisterBroker,
    UnfenceBroker,
)
from broker_runtime.errors import ErrorCode, KafkaError


class Sessions:
    """When each (broker id, epoch) was last heard of."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._contacts: dict[int, tuple[int, float]] = {}

    def touch(self, broker_id: int, epoch: int, now_s: float) -> None:
        """Also counts when the heartbeat cannot be handled in time."""
        self._contacts[broker_id] = (epoch, now_s)

    def end(self, broker_id: int) -> None:
        self._contacts.pop(broker_id, None)

    def is_live(self, broker_id: int, epoch: int, now_s: float) -> bool:
        known = self._contacts.get(broker_id)
        return known is not None and known[0] == epoch and now_s <= known[1] + self.timeout_s

    def expired(self, image: MetadataImage, now_s: float) -> list[int]:
        """The unfenced brokers whose session has run out."""
        return [b.id for b in image.brokers.values() if not b.fenced and not self.is_live(b.id, b.epoch, now_s)]

    def renew_all(self, image: MetadataImage, now_s: float, *, but: int | None) -> None:
        """For a controller that starts. `but` is a broker that cannot be alive: it ran in this process before."""
        for broker in image.brokers.values():
            if not broker.fenced and broker.id != but:
                self.touch(broker.id, broker.epoch, now_s)


@dataclass(frozen=True, slots=True)
class Registration:
    broker_id: int
    cluster_id: str
    incarnation: UUID | None
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    broker_id: int
    epoch: int
    metadata_offset: int
    want_fence: bool
    want_shut_down: bool


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


def register(
    wanted: Registration, image: MetadataImage, sessions: Sessions, now_s: float
) -> tuple[Sequence[Record], int]:
    """The records, and the broker's epoch."""
    if wanted.cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {wanted.cluster_id}",
        )
    if wanted.incarnation is None:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "a broker needs an incarnation id")
    if not wanted.endpoints or len({e.listener for e in wanted.endpoints}) != len(wanted.endpoints):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "a broker needs listeners, each with its own name")
    known = image.brokers.get(wanted.broker_id)
    if known is not None and known.incarnation == wanted.incarnation:
        return (), known.epoch
    if known is not None and sessions.is_live(known.id, known.epoch, now_s):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker is registered with that broker id {known.id}; its session has not ended yet",
        )
    records: list[Record] = []
    if known is not None and not known.fenced:
        records += fence(known, image)
    epoch = image.offset + 1 + len(records)
    records.append(RegisterBroker(wanted.broker_id, wanted.incarnation, epoch, wanted.endpoints, wanted.rack))
    return records, epoch


def heartbeat(
    beat: Heartbeat, image: MetadataImage, sessions: Sessions, now_s: float
) -> tuple[Sequence[Record], HeartbeatAnswer]:
    """The session is touched by the caller, before this is decided."""
    known = registered(beat.broker_id, beat.epoch, image)
    caught_up = beat.metadata_offset >= known.epoch
    if beat.want_shut_down:
        sessions.end(known.id)
        return ([] if known.fenced else fence(known, image)), HeartbeatAnswer(caught_up, True, True)
    if known.fenced and caught_up and not beat.want_fence:
        return unfence(known, image), HeartbeatAnswer(caught_up, False, False)
    if not known.fenced and beat.want_fence:
        return fence(known, image), HeartbeatAnswer(caught_up, True, False)
    return (), HeartbeatAnswer(caught_up, known.fenced, False)


def registered(broker_id: int, epoch: int, image: MetadataImage) -> BrokerInfo:
    known = image.brokers.get(broker_id)
    if known is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if known.epoch != epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {known.epoch}, but got broker epoch {epoch}"
        )
    return known


def fence(broker: BrokerInfo, image: MetadataImage) -> list[Record]:
    """Fence, and move what it leads."""
    records: list[Record] = [FenceBroker(broker.id, broker.epoch)]
    for topic, index, part in _partitions(image):
        if part.leader == broker.id:
            leader = _choose_leader(part, image, without=broker.id)
            records.append(_led_by(topic, index, part, leader))
    return records


def unfence(broker: BrokerInfo, image: MetadataImage) -> list[Record]:
    """Unfence, and give it the partitions that wait for it."""
    records: list[Record] = [UnfenceBroker(broker.id, broker.epoch)]
    for topic, index, part in _partitions(image):
        if part.leader == NO_LEADER and broker.id in part.isr:
            records.append(_led_by(topic, index, part, broker.id))
    return records


def _choose_leader(part: Partition, image: MetadataImage, without: int) -> int:
    """The first replica in the order of the assignment that is in sync and alive."""
    live = (r for r in part.replicas if r != without and r in part.isr and image.is_active(r))
    return next(live, NO_LEADER)


def _led_by(topic: Topic, index: int, part: Partition, leader: int) -> PartitionRecord:
    return PartitionRecord(
        topic.id, index, part.replicas, part.isr, leader, part.leader_epoch + 1, part.partition_epoch + 1
    )


def _partitions(image: MetadataImage) -> Iterator[tuple[Topic, int, Partition]]:
    for topic in image.topics.values():
        for index, part in topic.partitions.items():
            yield topic, index, part
