"""Validate changes of a partition's in-sync set by its leader (AlterPartition, KIP-497, KIP-841, KIP-903). Pure.

A leader that removes itself from the set hands the partition over to the remaining members: its log has damage that
cannot be repaired while it leads (decision 46). Apache Kafka refuses that. The checks run in Kafka's order, so that a
leader that is behind learns that first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from broker_runtime.controller.partitions.elections import candidates, changed_partition
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.topics import Partition
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord

RECOVERED = 0
"""The only leader recovery state of partitions: KIP-704's RECOVERING is not stored."""
EPOCH_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class IsrChange:
    """The change of an in-sync set that a leader requests.

    `isr` has (broker id, broker epoch); EPOCH_UNKNOWN is not compared.
    """

    topic_id: UUID
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[tuple[int, int]]
    recovery_state: int = RECOVERED


@dataclass(frozen=True, slots=True)
class IsrChanged:
    """The result of a change of an in-sync set.

    `code` NEW_LEADER_ELECTED: the change was accepted, and the requesting broker does not lead in that epoch any more.
    """

    records: Sequence[MetadataRecord]
    partition: Partition
    code: ErrorCode


def change_isr(leader: int, change: IsrChange, image: MetadataImage) -> IsrChanged:
    """Change a partition's in-sync set. The caller checks the epoch of the broker `leader`. Raises KafkaError."""
    topic = image.topics.by_id(change.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic id {change.topic_id} does not exist")
    part = topic.partitions.get(change.index)
    if part is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} has no partition {change.index}")
    _check_epochs(leader, change, part)
    _check_members(leader, change, part)
    _check_eligible(change, image)
    isr = tuple(broker for broker, _ in change.isr)
    # The order in which a leader names the members has no meaning.
    wanted = part if set(isr) == set(part.isr) else replace(part, isr=isr)
    new = changed_partition(part, wanted, candidates(topic.name, image))
    if new is part:
        return IsrChanged((), part, ErrorCode.NONE)
    code = ErrorCode.NONE if new.leader_epoch == part.leader_epoch else ErrorCode.NEW_LEADER_ELECTED
    return IsrChanged((new.record(topic.id, change.index),), new, code)


def _check_epochs(leader: int, change: IsrChange, part: Partition) -> None:
    if change.leader_epoch > part.leader_epoch or change.partition_epoch > part.partition_epoch:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "the leader knows a newer epoch than this controller")
    if change.leader_epoch < part.leader_epoch:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {part.leader_epoch}, not {change.leader_epoch}"
        )
    if leader != part.leader:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"broker {leader} does not lead the partition; broker {part.leader} does"
        )
    if change.partition_epoch < part.partition_epoch:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"the partition epoch is {part.partition_epoch}, not {change.partition_epoch}",
        )


def _check_members(leader: int, change: IsrChange, part: Partition) -> None:
    members = {broker for broker, _ in change.isr}
    if not members or len(members) != len(change.isr) or not members <= set(part.replicas):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the in-sync set must have at least one replica of {list(part.replicas)}, and no replica twice",
        )
    if leader not in members and not members <= set(part.isr):
        text = f"the leader {leader} may hand over only to members of the in-sync set {list(part.isr)}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    if change.recovery_state != RECOVERED:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"leader recovery state {change.recovery_state} is not known")


def _check_eligible(change: IsrChange, image: MetadataImage) -> None:
    for broker_id, epoch in change.isr:
        broker = image.brokers.get(broker_id)
        if broker is None:
            why = "not registered"
        elif broker.fenced:
            why = "fenced"
        elif broker.stopping_offset is not None:
            why = "in controlled shutdown"
        elif epoch not in (EPOCH_UNKNOWN, broker.epoch):
            why = f"registered with broker epoch {broker.epoch}, not {epoch}"
        else:
            continue
        raise KafkaError(ErrorCode.INELIGIBLE_REPLICA, f"broker {broker_id} is {why}")
