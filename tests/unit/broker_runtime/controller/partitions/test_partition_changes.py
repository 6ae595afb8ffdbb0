"""AlterPartition's checks, in Kafka's order: of several errors, the first in the table is returned."""

from dataclasses import replace
from uuid import UUID

import pytest

from broker_runtime.controller.partitions.partition_changes import EPOCH_UNKNOWN, IsrChange, IsrChanged, change_isr
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.brokers import FenceBroker, StopBroker, UnregisterBroker
from broker_runtime.metadata.areas.topics import Partition, PartitionRecord, RemoveTopic
from broker_runtime.metadata.record import MetadataRecord
from tests.support.worlds.controller import Metadata

LEADER_EPOCH, PARTITION_EPOCH = 5, 9


def cluster(**more: tuple[int, ...]) -> tuple[Metadata, IsrChange]:
    """A partition led by broker 1, with 2 in sync and 3 not yet, and the change that adds 3."""
    metadata = Metadata()
    for broker_id in (1, 2, 3, 4):
        metadata.broker(broker_id)
    topic_id = metadata.topic("t", [1, 2, 3])
    part = PartitionRecord(topic_id, 0, (1, 2, 3), (1, 2), 1, LEADER_EPOCH, PARTITION_EPOCH)
    metadata.write(PartitionRecord(topic_id, 0, part.replicas, part.isr, 1, LEADER_EPOCH, PARTITION_EPOCH, **more))
    isr = [(broker_id, metadata.image.brokers[broker_id].epoch) for broker_id in (1, 2, 3)]
    return metadata, IsrChange(topic_id, 0, LEADER_EPOCH, PARTITION_EPOCH, isr)


def the(metadata: Metadata) -> Partition:
    return metadata.image.topics["t"].partitions[0]


def committed(metadata: Metadata, change: IsrChange, leader: int = 1) -> IsrChanged:
    changed = change_isr(leader, change, metadata.image)
    metadata.write(*changed.records)
    assert changed.partition == the(metadata)
    return changed


def test_a_follower_joins_and_leaves() -> None:
    metadata, change = cluster()
    assert committed(metadata, change).code == ErrorCode.NONE
    assert the(metadata) == Partition((1, 2, 3), (1, 2, 3), 1, LEADER_EPOCH, PARTITION_EPOCH + 1)
    alone = replace(change, isr=change.isr[:1], partition_epoch=PARTITION_EPOCH + 1)
    assert committed(metadata, alone).code == ErrorCode.NONE
    assert the(metadata) == Partition((1, 2, 3), (1,), 1, LEADER_EPOCH, PARTITION_EPOCH + 2)


def test_a_leader_that_leaves_the_set_hands_over_to_a_member_of_it() -> None:
    metadata, change = cluster()
    changed = committed(metadata, replace(change, isr=change.isr[1:2]))
    assert changed.code == ErrorCode.NEW_LEADER_ELECTED
    assert the(metadata) == Partition((1, 2, 3), (2,), 2, LEADER_EPOCH + 1, PARTITION_EPOCH + 1)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_set_that_there_is_already_writes_nothing(order: tuple[int, int]) -> None:
    metadata, change = cluster()
    changed = change_isr(1, replace(change, isr=[change.isr[n] for n in order]), metadata.image)
    assert (changed.records, changed.partition, changed.code) == ((), the(metadata), ErrorCode.NONE)


def test_epochs_that_are_not_known_are_not_compared() -> None:
    metadata, change = cluster()
    committed(metadata, replace(change, isr=[(broker_id, EPOCH_UNKNOWN) for broker_id, _ in change.isr]))
    assert the(metadata).isr == (1, 2, 3)


STRANGER = {"isr": [(1, EPOCH_UNKNOWN), (4, EPOCH_UNKNOWN)]}
MISTAKES = [
    ({"topic_id": UUID(int=7)}, ErrorCode.UNKNOWN_TOPIC_ID),
    ({"index": 3}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ({"leader_epoch": LEADER_EPOCH + 1}, ErrorCode.NOT_CONTROLLER),
    ({"partition_epoch": PARTITION_EPOCH + 1}, ErrorCode.NOT_CONTROLLER),
    ({"leader_epoch": LEADER_EPOCH - 1}, ErrorCode.FENCED_LEADER_EPOCH),
    ({"leader": 2}, ErrorCode.INVALID_REQUEST),
    ({"partition_epoch": PARTITION_EPOCH - 1}, ErrorCode.INVALID_UPDATE_VERSION),
    ({"isr": []}, ErrorCode.INVALID_REQUEST),
    ({"isr": [(1, EPOCH_UNKNOWN)] * 2}, ErrorCode.INVALID_REQUEST),
    (STRANGER, ErrorCode.INVALID_REQUEST),
    ({"isr": [(3, EPOCH_UNKNOWN)]}, ErrorCode.INVALID_REQUEST),
    ({"isr": [(2, EPOCH_UNKNOWN), (3, EPOCH_UNKNOWN)]}, ErrorCode.INVALID_REQUEST),
    ({"recovery_state": 1}, ErrorCode.INVALID_REQUEST),
    ({"isr": [(1, EPOCH_UNKNOWN), (3, 10**6)]}, ErrorCode.INELIGIBLE_REPLICA),
]


@pytest.mark.parametrize(("wrong", "code"), MISTAKES)
def test_changes_that_are_refused(wrong: dict[str, object], code: ErrorCode) -> None:
    metadata, change = cluster()
    leader = int(str(wrong.get("leader", 1)))
    with pytest.raises(KafkaError) as refused:
        change_isr(leader, replace(change, **{k: v for k, v in wrong.items() if k != "leader"}), metadata.image)  # type: ignore[arg-type]
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("both", "code"),
    [
        ({"leader_epoch": LEADER_EPOCH - 1, "partition_epoch": PARTITION_EPOCH + 1}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": LEADER_EPOCH - 1, **STRANGER}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": PARTITION_EPOCH - 1, **STRANGER}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"isr": [(1, 10**6), (4, 10**6)]}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_the_error_that_kafka_checks_first_is_returned(both: dict[str, object], code: ErrorCode) -> None:
    metadata, change = cluster()
    with pytest.raises(KafkaError) as refused:
        change_isr(1, replace(change, **both), metadata.image)  # type: ignore[arg-type]
    assert refused.value.code == code


@pytest.mark.parametrize("kind", ["fenced", "stopping", "unregistered"])
def test_a_replica_that_may_not_lead_may_not_be_in_sync(kind: str) -> None:
    metadata, change = cluster()
    epoch = metadata.image.brokers[3].epoch
    records: dict[str, MetadataRecord] = {
        "fenced": FenceBroker(3, epoch),
        "stopping": StopBroker(3, epoch, metadata.image.offset + 1),
        "unregistered": UnregisterBroker(3, epoch),
    }
    metadata.write(records[kind])
    with pytest.raises(KafkaError, match="broker 3") as refused:
        change_isr(1, change, metadata.image)
    assert refused.value.code == ErrorCode.INELIGIBLE_REPLICA


def test_a_topic_that_was_removed_is_unknown() -> None:
    metadata, change = cluster()
    metadata.write(RemoveTopic(change.topic_id))
    with pytest.raises(KafkaError) as refused:
        change_isr(1, change, metadata.image)
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_ID


def test_the_last_follower_to_come_in_sync_finishes_a_reassignment() -> None:
    metadata, change = cluster(adding=(3,), removing=(2,))
    changed = committed(metadata, change)
    assert the(metadata) == Partition((1, 3), (1, 3), 1, LEADER_EPOCH + 1, PARTITION_EPOCH + 1)
    # The leader's epoch has changed, so it waits for the metadata like every replica.
    assert changed.code == ErrorCode.NEW_LEADER_ELECTED


def test_a_leader_that_is_moved_away_hands_over_when_the_others_are_in_sync() -> None:
    metadata, change = cluster(adding=(3,), removing=(1,))
    changed = committed(metadata, change)
    assert the(metadata) == Partition((2, 3), (2, 3), 2, LEADER_EPOCH + 1, PARTITION_EPOCH + 1)
    assert changed.code == ErrorCode.NEW_LEADER_ELECTED


def test_a_reassignment_goes_on_while_one_that_is_added_lags() -> None:
    metadata, change = cluster(adding=(3,), removing=(2,))
    alone = replace(change, isr=change.isr[:1])
    assert committed(metadata, alone).code == ErrorCode.NONE
    assert (the(metadata).replicas, the(metadata).adding, the(metadata).removing) == ((1, 2, 3), (3,), (2,))
