"""Reassignments: begun, finished, replaced, cancelled, refused (KIP-455)."""

from uuid import UUID

import pytest

from broker_runtime.controller.partitions.partition_changes import EPOCH_UNKNOWN, IsrChange, change_isr
from broker_runtime.controller.partitions.reassignments import is_under_way, reassign
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.brokers import FenceBroker
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.areas.topics import Partition
from tests.support.worlds.controller import Metadata


def five() -> tuple[Metadata, UUID]:
    metadata = Metadata()
    for broker_id in range(1, 6):
        metadata.broker(broker_id)
    return metadata, metadata.topic("t", [1, 2, 3])


def the(metadata: Metadata) -> Partition:
    return metadata.image.topics["t"].partitions[0]


def move(metadata: Metadata, target: list[int] | None) -> Partition:
    metadata.write(*reassign("t", 0, target, metadata.image))
    return the(metadata)


def in_sync(metadata: Metadata, *isr: int) -> Partition:
    part, topic_id = the(metadata), metadata.image.topics["t"].id
    change = IsrChange(topic_id, 0, part.leader_epoch, part.partition_epoch, [(r, EPOCH_UNKNOWN) for r in isr])
    metadata.write(*change_isr(part.leader, change, metadata.image).records)
    return the(metadata)


def test_old_replicas_are_removed_once_the_new_ones_are_in_sync() -> None:
    metadata, _ = five()
    assert move(metadata, [4, 5, 1]) == Partition((4, 5, 1, 2, 3), (1, 2, 3), 1, 0, 1, (4, 5), (2, 3))
    assert is_under_way(the(metadata))
    assert in_sync(metadata, 1, 2, 3, 4).adding == (4, 5)
    assert in_sync(metadata, 1, 2, 3, 4, 5) == Partition((4, 5, 1), (1, 4, 5), 1, 1, 3)
    assert not is_under_way(the(metadata))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ([3, 2, 1], Partition((3, 2, 1), (1, 2, 3), 1, 0, 1)),
        ([2, 1], Partition((2, 1), (1, 2), 1, 1, 1)),
        ([2, 3], Partition((2, 3), (2, 3), 2, 1, 1)),
        ([1, 2, 3, 4], Partition((1, 2, 3, 4), (1, 2, 3), 1, 0, 1, (4,))),
    ],
)
def test_what_needs_no_new_replica_is_done_at_once(target: list[int], expected: Partition) -> None:
    metadata, _ = five()
    assert move(metadata, target) == expected


def test_the_present_assignment_is_no_change() -> None:
    metadata, _ = five()
    assert reassign("t", 0, [1, 2, 3], metadata.image) == ()


def test_a_shrink_waits_for_a_replica_that_stays() -> None:
    metadata, _ = five()
    in_sync(metadata, 1)
    part = move(metadata, [2, 3])
    assert (part.leader, part.isr, part.removing) == (1, (1,), (1,))
    assert in_sync(metadata, 1, 2) == Partition((2, 3), (2,), 2, 1, 3)


def test_cancelling_restores_the_original_replicas() -> None:
    metadata, _ = five()
    move(metadata, [4, 5])
    in_sync(metadata, 1, 2, 3, 4)
    assert move(metadata, None) == Partition((1, 2, 3), (1, 2, 3), 1, 1, 3)
    with pytest.raises(KafkaError) as refused:
        reassign("t", 0, None, metadata.image)
    assert refused.value.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize("allowed", [False, True])
def test_cancelling_that_would_lose_the_only_replica_in_sync_needs_an_unclean_election(allowed: bool) -> None:
    metadata, _ = five()
    move(metadata, [4, 5])
    in_sync(metadata, 1, 4)
    metadata.write(FenceBroker(1, metadata.image.brokers[1].epoch))
    part, topic = the(metadata), metadata.image.topics["t"]
    left = Partition(part.replicas, (4,), 4, 3, 8, part.adding, part.removing)
    metadata.write(left.record(topic.id, 0))
    metadata.write(ConfigRecord(2, "t", "unclean.leader.election.enable", str(allowed).lower()))
    if allowed:
        reverted = move(metadata, None)
        assert (reverted.replicas, reverted.leader, reverted.isr) == ((1, 2, 3), 2, (2,))
        return
    with pytest.raises(KafkaError, match="unclean leader election") as refused:
        reassign("t", 0, None, metadata.image)
    assert refused.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_reassignment_that_replaces_another_starts_from_the_replicas_before_both() -> None:
    metadata, _ = five()
    move(metadata, [4, 1, 2])
    part = move(metadata, [5, 1, 2])
    assert (part.replicas, part.adding, part.removing) == ((5, 1, 2, 3), (5,), (3,))
    assert move(metadata, None).replicas == (1, 2, 3)


def test_what_the_former_reassignment_brought_in_sync_still_counts_as_added() -> None:
    metadata, _ = five()
    move(metadata, [4, 5, 1])
    in_sync(metadata, 1, 2, 3, 4)
    part = move(metadata, [4, 1, 2])
    assert part == Partition((4, 1, 2), (1, 2, 4), 1, 1, 3)


def test_a_reassignment_may_not_drop_the_only_replica_in_sync() -> None:
    metadata, _ = five()
    move(metadata, [4, 5])
    part, topic = the(metadata), metadata.image.topics["t"]
    left = Partition(part.replicas, (4,), 4, 3, 8, part.adding, part.removing)
    metadata.write(left.record(topic.id, 0))
    with pytest.raises(KafkaError, match=r"one of \[4\]"):
        reassign("t", 0, [5], metadata.image)


@pytest.mark.parametrize(
    ("name", "index", "target", "code"),
    [
        ("nope", 0, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 1, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("t", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [1, -1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_reassignments_that_are_refused(name: str, index: int, target: list[int] | None, code: ErrorCode) -> None:
    metadata, _ = five()
    with pytest.raises(KafkaError) as refused:
        reassign(name, index, target, metadata.image)
    assert refused.value.code == code


def test_the_replication_factor_is_kept_when_that_is_asked_for() -> None:
    metadata, _ = five()
    metadata.write(*reassign("t", 0, [4, 5, 1], metadata.image, keep_factor=True))
    for target, fits in (([1, 2], False), ([1, 2, 3, 4], False), ([2, 3, 4], True)):
        if fits:
            assert reassign("t", 0, target, metadata.image, keep_factor=True)
        else:
            with pytest.raises(KafkaError, match=f"changed from 3 to {len(target)}") as refused:
                reassign("t", 0, target, metadata.image, keep_factor=True)
            assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_broker_that_dies_while_a_partition_is_moved_leaves_it_under_way() -> None:
    metadata, _ = five()
    move(metadata, [4, 5])
    part = the(metadata)
    assert part.removing == (1, 2, 3)
    in_sync(metadata, 1, 2, 3, 4)
    assert the(metadata).adding == (4, 5)
    done = in_sync(metadata, 1, 2, 3, 4, 5)
    assert (done.replicas, done.leader, done.leader_epoch) == ((4, 5), 4, 1)
